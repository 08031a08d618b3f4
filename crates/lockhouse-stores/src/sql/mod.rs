//! The code that the stores on a database server share: everything except the SQL.
//!
//! A batch is two round trips. The first packet begins a transaction, locks the rows that the batch
//! touches and reads the clock. Then this process decides the batch. The second packet writes the
//! changes, and commits. Neither is prepared, since each prepared statement would take a round
//! trip.
//!
//! - `transact` executes a batch; `read`, `walk`, `due`, `purge`, `recount` and `schema` the other
//!   calls.
//! - `driver` and `dialect` have the differences between servers, and `values` writes rows as literals.
//! - `known` caches permits that this process has read or written.
//! - `locked` finds the rows that other transactions keep locked.
//! - `script` builds the SQL; `rows` and `load` read the answers.
//! - `interruption` ends a script that waits for a locked gap.
//! - `pool`, `hosts` and `connection` run scripts, and `error` maps their failures.
//! - `peer` finds out whether the URL names a server of another kind.
//! - **Errors**: an error of the server before the COMMIT means that nothing was applied. If the
//!   connection breaks after the second packet was sent, the outcome is unknown.

mod connection;
mod dialect;
mod driver;
mod due;
mod error;
mod gap;
mod host;
mod hosts;
mod ids;
mod interruption;
mod known;
pub(crate) mod load;
mod locked;
mod peer;
#[cfg(test)]
pub(crate) mod plan_rows;
mod pool;
mod purge;
mod read;
mod recount;
mod row_ids;
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

use tracing::Instrument as _;

use crate::lapsed::Looks;
pub(crate) use dialect::{ByKey, Dialect, Look};
pub(crate) use driver::{Driver, Pieces, ReadOnly};
pub(crate) use error::servers_word;
pub(crate) use host::Host;
pub(crate) use hosts::Hosts;
use ids::Ids;
use known::Known;
pub(crate) use pool::{Lease, Pool};
pub(crate) use row_ids::RowIds;
pub(crate) use script::{Inserts, Script, list};
pub(crate) use url::{
    Location, Pem, check_file, check_files, configuration, connections, names_a, parsed,
};

/// A store on a database server; see [`MySql`](crate::MySql).
///
/// - **Fairness**: batches that wait for the same semaphore are served in the order in which the
///   server queues its row locks.
/// - **Cancellation**: each call runs in a separate task, so it runs to its end even if its future
///   is dropped.
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
    notifier: D::Notifier,
}

impl<D: Dialect> Sql<D> {
    /// A store that has not connected yet.
    pub(crate) fn at(location: Location<D>) -> Self {
        let hosts = Arc::new(location.hosts);
        Self(Arc::new(Inner {
            ids: Ids::new(),
            known: Known::new(),
            looks: Looks::default(),
            notifier: D::notifier(&hosts),
            pool: Arc::new(Pool::new(hosts, location.connections)),
        }))
    }

    /// Runs `call` in a separate task, which goes on when the caller goes away, so that no
    /// transaction is cut off halfway. `lost` is the kind of the error if the task dies.
    async fn in_own_task<T, F>(
        &self,
        lost: Kind,
        call: impl FnOnce(Arc<Inner<D>>) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let task = tokio::spawn(call(Arc::clone(&self.0)).in_current_span());
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
