//! A store on Redis, or Valkey.
//!
//! A batch is two scripts. The first reads the clock and the rows that the batch touches. Then the batch is decided
//! here, and the second script writes the changes if all that was read is still the same, byte for byte. So no rule is
//! written in Lua, and nothing is locked: of two batches that meet, the second finds its rows changed and begins again.
//!
//! - `keys` says where everything is, `rows` how it is written.
//! - `transaction` is the two ends of a batch; `read`, `upkeep` and `waiting_list` are the other calls.
//! - `connection` runs scripts, `answer` reads what they answer, and `error` says what became of one that failed.

mod answer;
mod connection;
mod error;
mod info;
mod keys;
mod read;
mod rows;
mod templates;
mod tokens;
mod transaction;
mod upkeep;
mod url;
mod waiting_list;

use std::collections::BTreeSet;
use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{
    Batch, Cursor, Due, Error, Held, Holders, Kind, Listing, Migration, Notification, Page, Purge,
    Shown, ShownWaiter, Stale, Store, Upkeep, WaitingList, transact,
};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, NamePrefix, Outcome, Owner, ProcessId, Recount, Request,
    Semaphore, SemaphoreName, Timestamp,
};

use ::redis::Value;

use crate::lapsed::Looks;
use answer::Rows;
use connection::{Connections, LOAD, SAVE, Script};
use keys::Keys;
use transaction::RedisTransaction;

/// A script runs alone on the server, so a batch is kept short.
const MAX_BATCH: usize = 256;

/// The version of what is kept on the server.
const SCHEMA: u32 = 1;

/// Keeps permits on a Redis or Valkey server.
///
/// - **Clock**: the server's, read by the script that reads the rows. A batch that takes more than 2 s from there to its write
///   begins again.
/// - **Lock**: none. A batch whose rows were changed by another begins again, and gives up after 5 s with
///   [`Kind::Conflict`]. One of those that meet always succeeds.
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
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
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
    /// [`Kind::Configuration`] when the URL is malformed.
    pub fn open(url: &str) -> Result<Self, Error> {
        let location = url::parse(url)?;
        Ok(Self(Arc::new(Inner {
            keys: Keys::new(&location.namespace),
            connections: Connections::new(location),
            looks: Looks::default(),
        })))
    }
}

impl Inner {
    /// What a script that only reads answers.
    async fn read(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[impl AsRef<[u8]>],
    ) -> Result<Value, Error> {
        let run = self
            .connections
            .run(script, keys, arguments, Kind::Unavailable, "reading");
        run.await
    }

    /// What a script that may change something answers.
    async fn write(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[impl AsRef<[u8]>],
        context: &str,
    ) -> Result<Value, Error> {
        let run = self
            .connections
            .run(script, keys, arguments, Kind::Unknown, context);
        run.await
    }

    /// Writes a row unless it is not as it `was`; whether it was.
    async fn replace(
        &self,
        key: String,
        was: Vec<u8>,
        is: String,
        context: &str,
    ) -> Result<bool, Error> {
        let late = i64::MAX.to_string().into_bytes();
        let mut arguments = vec![late, Vec::new(), b"0".to_vec(), was, b"3".to_vec()];
        arguments.extend([b"SET".to_vec(), key.clone().into_bytes(), is.into_bytes()]);
        let saved = self.write(&SAVE, &[key], &arguments, context).await?;
        Ok(answer::text(&saved)? == "DONE")
    }

    /// The rows of `keys` behind that of the schema, which must be the one that this version needs.
    async fn rows(&self, keys: Vec<String>) -> Result<Rows, Error> {
        let mut all = vec![self.keys.of("schema")];
        all.extend(keys);
        let found = self.read(&LOAD, &all, &[""; 0]).await?;
        let found = Rows::read(all, found)?;
        let schema = std::str::from_utf8(&found.values[0]).unwrap_or_default();
        if schema == SCHEMA.to_string() {
            return Ok(found);
        }
        let at = &self.connections.display;
        let problem = match schema {
            "" => format!("{at} has no schema of Lockhouse; run lockhouse migrate"),
            other => format!(
                "the schema at {at} is version {other}, and this program needs {SCHEMA}; use the program of that version"
            ),
        };
        Err(Error::new(Kind::Schema, problem))
    }

    async fn migrate(&self) -> Result<(), Error> {
        let context = "creating the schema";
        let mut set = ::redis::cmd("SET");
        set.arg(self.keys.of("schema")).arg(SCHEMA).arg("NX");
        self.connections.ask(&set, context).await?;
        self.now().await.map(drop)
    }
}

#[async_trait]
impl Store for Redis {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        transact(&mut RedisTransaction::new(&self.0), batch).await
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    /// It has no row locks.
    async fn locked(&self, _: &Footprint) -> Result<Footprint, Error> {
        Ok(Footprint::default())
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        Ok(self.0.named(slice::from_ref(name)).await?.pop())
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        self.0.named(names).await
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        self.0.request(external_id).await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.0.now().await.map(drop)
    }
}

#[async_trait]
impl Listing for Redis {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<Semaphore>, Error> {
        self.0.semaphores("names", prefix, page).await
    }

    async fn semaphores_ever(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        self.0.semaphores("ever", None, page).await
    }

    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        self.0.holders(of, page).await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        self.0.history(name, limit).await
    }
}

#[async_trait]
impl Upkeep for Redis {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        self.0.due(which, limit).await
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        self.0.stale(age, page).await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        self.0.owners(page).await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.0.purge(what, limit).await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.0.recount().await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        self.0.repair(name).await
    }
}

#[async_trait]
impl WaitingList for Redis {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        self.0.show(process, waiting, gone).await
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        self.0.shown(name).await
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        self.0.delete("shown", age, limit).await
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
        self.0.migrate().await
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis")
            .field(&self.0.connections.display)
            .finish()
    }
}
