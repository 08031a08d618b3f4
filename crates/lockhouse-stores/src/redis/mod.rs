//! A store on Redis, or Valkey.
//!
//! A batch is two scripts. The first reads the clock and the rows that the batch touches. Then this
//! process decides the batch, and the second script writes the changes if all rows are still the
//! same, byte for byte. So neither script has a rule in it, and nothing is locked: of two batches
//! that meet, the second finds its rows changed and begins again.
//!
//! Two scripts of the upkeep have conditions. `due.lua` finds requests that have lapsed, and a batch
//! decides again whether they end. `purge.lua` keeps sessions whose owners hold something.
//!
//! - `keys` names the keys, `rows` reads them, and `writes` changes them.
//! - `transaction` has the load and the save of a batch; `listing`, `maintenance`, `purge`, `recount`, `templates`, `tokens`
//!   and `waiting_list` are the other calls.
//! - `connection` runs scripts, and `error` maps their failures.

mod connection;
mod error;
mod info;
mod keys;
mod listing;
mod maintenance;
mod purge;
mod recount;
mod rows;
mod store;
mod templates;
mod tokens;
mod transaction;
mod url;
mod waiting_list;
mod writes;

use std::collections::BTreeSet;
use std::slice;

use async_trait::async_trait;
use lockhouse_core::store::{Batch, Connections, Error, Migration, Notification, Store, transact};
use lockhouse_core::{
    ExternalId, Footprint, Outcome, ProcessId, Request, SemaphoreName, SemaphoreRow,
};

use rows::SCHEMA;
pub use store::Redis;
use transaction::RedisTransaction;

/// A script runs alone on the server, so a batch is kept short.
const MAX_BATCH: usize = 256;

#[async_trait]
impl Store for Redis {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        transact(&mut RedisTransaction::new(self), batch).await
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    /// This store has no row locks.
    async fn locked(&self, _: &Footprint) -> Result<Footprint, Error> {
        Ok(Footprint::default())
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        Ok(self.named(slice::from_ref(name)).await?.pop())
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let keys = names.iter().map(|name| self.keys.semaphore(name));
        let mut found: Vec<SemaphoreRow> = rows::all(self.load(keys).await?.values)?;
        found.retain(SemaphoreRow::exists);
        Ok(found)
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        let loaded = self.load([self.keys.request(external_id)]).await?;
        Ok(rows::all(loaded.values)?.pop())
    }

    async fn ready(&self) -> Result<(), Error> {
        self.now().await.map(drop)
    }

    fn connections(&self) -> Connections {
        self.connections.state()
    }
}

#[async_trait]
impl Notification for Redis {
    /// This store has no notifications.
    async fn changed(&self, _: &BTreeSet<SemaphoreName>, _: ProcessId) -> BTreeSet<SemaphoreName> {
        std::future::pending().await
    }
}

#[async_trait]
impl Migration for Redis {
    async fn migrate(&self) -> Result<(), Error> {
        let mut set = ::redis::cmd("SET");
        set.arg(self.keys.of("schema")).arg(SCHEMA).arg("NX");
        let context = "creating the schema";
        let _: Option<String> = self.connections.ask(&set, context).await?;
        self.ready().await
    }
}
