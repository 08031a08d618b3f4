//! What the stores on a database server share: all but the SQL itself.
//!
//! A batch is two round trips. The first packet begins a transaction, locks what the batch touches
//! and reads the clock; then the batch is decided here; the second packet writes what was decided,
//! and commits. Neither is prepared: a prepared statement is one statement, and one round trip.
//!
//! - `transact` runs a batch; `read`, `walk`, `due`, `purge`, `recount` and `schema` the other calls.
//! - `dialect` says what a kind of server has of its own, and `values` writes rows in it.
//! - `known` spares a batch reading what was read or written here before.
//! - `locked` finds the rows that other transactions keep locked.
//! - `script` is what is sent; `rows` and `load` read what comes back.
//! - `pool` and `connection` run scripts, and `error` says what became of one that failed.
//! - `peer` says which kind of server there is where this kind cannot be spoken to.
//! - **Errors**: an error of the server before the COMMIT means that nothing was applied. A
//!   connection that breaks once the second packet was sent leaves that unknown.

mod connection;
mod dialect;
mod due;
mod error;
mod ids;
mod known;
mod load;
mod locked;
mod peer;
mod pool;
mod purge;
mod read;
mod recount;
pub(crate) mod rows;
mod schema;
mod script;
mod store;
pub(crate) mod templates;
mod tokens;
mod transact;
mod url;
pub(crate) mod values;
mod waiting_list;
mod walk;

use std::fmt;
use std::sync::Arc;

use lockhouse_core::store::{Error, Kind};

use crate::lapsed::Looks;
pub(crate) use dialect::{ByKey, Dialect, Driver, OptionsOf, Pieces};
pub(crate) use due::Look;
pub(crate) use error::servers_word;
use ids::Ids;
use known::Known;
pub(crate) use load::RowIds;
pub(crate) use pool::{Lease, Pool};
pub(crate) use read::Names;
pub(crate) use script::{Script, list};
pub(crate) use url::{Location, check_files, configuration, connections, names_a};

/// A store on a database server; see [`MySql`](crate::MySql).
///
/// - **Fairness**: batches that wait for the same semaphore are served in the order in which the
///   server queues its row locks.
/// - **Cancellation**: a call runs in a task of its own, so one whose future is dropped still runs
///   to its end.
/// - **Time**: every call ends within 10 s; a lock wait of a batch after half a second, as
///   [`Kind::Locked`](lockhouse_core::store::Kind::Locked). Only
///   [`migrate`](lockhouse_core::store::Migration::migrate),
///   [`recount`](lockhouse_core::store::Upkeep::recount) and
///   [`repair`](lockhouse_core::store::Upkeep::repair), which read whole tables, may take 10 min;
///   batches go on meanwhile.
pub struct Sql<D: Dialect>(pub(crate) Arc<Inner<D>>);

pub(crate) struct Inner<D: Dialect> {
    pub(crate) pool: Arc<Pool<D>>,
    pub(crate) ids: Ids,
    known: Known,
    looks: Looks,
    bell: D::Bell,
}

impl<D: Dialect> Sql<D> {
    /// A store that has not connected yet.
    pub(crate) fn at(location: Location<D>) -> Self {
        Self(Arc::new(Inner {
            ids: Ids::new(),
            known: Known::new(),
            looks: Looks::default(),
            bell: D::bell(&location.driver),
            pool: Arc::new(Pool::new(location)),
        }))
    }

    /// Runs `call` in a task of its own, which goes on when the caller goes away, so that nothing
    /// is cut in two. `lost` is the kind of the error if the task dies.
    async fn in_own_task<T, F>(
        &self,
        lost: Kind,
        call: impl FnOnce(Arc<Inner<D>>) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let task = tokio::spawn(call(Arc::clone(&self.0)));
        task.await.unwrap_or_else(|died| {
            Err(Error::new(lost, "a call to the store died").caused_by(died))
        })
    }
}

impl<D: Dialect> Clone for Sql<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Dialect> fmt::Debug for Sql<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = <D::Database as sqlx::Database>::NAME;
        f.debug_tuple(name).field(&self.0.pool.display()).finish()
    }
}
