//! A store on Redis, or Valkey.
//!
//! A batch is two scripts. The first reads the clock and the rows that the batch touches. Then the batch is decided
//! here, and the second script writes the changes if all that was read is still the same, byte for byte. So no rule is
//! written in Lua, and nothing is locked: of two batches that meet, the second finds its rows changed and begins again.
//!
//! - `keys` says where everything is, `rows` reads it, and `writes` changes it.
//! - `transaction` is the two ends of a batch; `listing`, `upkeep`, `recount` and `waiting_list` are the other calls.
//! - `connection` runs scripts, and `error` says what became of one that failed.

mod connection;
mod error;
mod info;
mod keys;
mod listing;
mod recount;
mod rows;
mod transaction;
mod upkeep;
mod url;
mod waiting_list;
mod writes;

use std::collections::BTreeSet;
use std::fmt;
use std::slice;

use async_trait::async_trait;
use lockhouse_core::store::{Batch, Error, Migration, Notification, Store, transact};
use lockhouse_core::{
    ExternalId, Footprint, Outcome, ProcessId, Request, Semaphore, SemaphoreName,
};

use crate::lapsed::Looks;
use connection::Connections;
use keys::Keys;
use rows::SCHEMA;
use transaction::RedisTransaction;

/// A script runs alone on the server, so a batch is kept short.
const MAX_BATCH: usize = 256;

/// Keeps permits on a Redis or Valkey server.
///
/// - **Clock**: the server's, read by the script that reads the rows. A batch that takes more than 2 s from there to its write
///   begins again.
/// - **Lock**: none. A batch whose rows were changed by another begins again, and gives up after 5 s with
///   [`Kind::Conflict`](lockhouse_core::store::Kind::Conflict). One of those that meet always succeeds.
/// - **Durability**: with `appendonly yes` and `appendfsync always` a commit is on the server's disk when it is answered. A
///   replica that takes over may lack the last commits; see the documentation of the stores.
/// - **Cancellation**: a call whose future is dropped may still take effect.
/// - **Server**: Redis 7 or Valkey, or newer; one primary, with or without replicas. All keys have the hash tag of the
///   namespace.
///
/// ```
/// use lockhouse_stores::Redis;
///
/// let store = Redis::open("redis://127.0.0.1:6379/0?namespace=permits")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
pub struct Redis {
    connections: Connections,
    keys: Keys,
    looks: Looks<SemaphoreName>,
}

impl Redis {
    /// A store on the server of `redis://USER:PASSWORD@HOST:PORT/DATABASE?namespace=NAME`, or `rediss://` with TLS. The namespace
    /// is `lockhouse` unless the URL says otherwise.
    ///
    /// Nothing is connected to yet.
    ///
    /// # Errors
    /// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) when the URL is malformed.
    pub fn open(url: &str) -> Result<Self, Error> {
        let location = url::parse(url)?;
        Ok(Self {
            keys: Keys::new(&location.namespace),
            connections: Connections::new(location),
            looks: Looks::default(),
        })
    }
}

#[async_trait]
impl Store for Redis {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        transact(&mut RedisTransaction::new(self), batch).await
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    /// It has no row locks.
    async fn locked(&self, _: &Footprint) -> Result<Footprint, Error> {
        Ok(Footprint::default())
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        Ok(self.named(slice::from_ref(name)).await?.pop())
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        let keys = names.iter().map(|name| self.keys.semaphore(name));
        let mut found: Vec<Semaphore> = rows::all(self.load(keys).await?.values)?;
        found.retain(Semaphore::exists);
        Ok(found)
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        let loaded = self.load([self.keys.request(external_id)]).await?;
        Ok(rows::all(loaded.values)?.pop())
    }

    async fn ready(&self) -> Result<(), Error> {
        self.now().await.map(drop)
    }
}

#[async_trait]
impl Notification for Redis {
    /// It is told of nothing.
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

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis")
            .field(&self.connections.display)
            .finish()
    }
}
