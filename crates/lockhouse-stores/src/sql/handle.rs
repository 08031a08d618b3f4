//! A store on a database server, and what its calls share.

use std::fmt;
use std::sync::Arc;

use lockhouse_core::store::{Error, Kind};
use tracing::Instrument as _;

use super::dialect::Dialect;
use super::ids::Ids;
use super::known::Known;
use super::pool::Pool;
use super::url::Location;
use crate::lapsed::Looks;

/// A store on a database server; see [`MySql`](crate::MySql).
///
/// - **Fairness**: batches that wait for the same semaphore are served in the order in which the
///   server queues its row locks.
/// - **Cancellation**: each call runs in a separate task, so it runs to its end even if its future
///   is dropped.
/// - **Time**: every call ends within 10 s; a lock wait of a batch after half a second, as
///   [`Kind::Locked`](lockhouse_core::store::Kind::Locked). Only
///   [`migrate`](lockhouse_core::store::Migration::migrate),
///   [`recount`](lockhouse_core::store::Maintenance::recount) and
///   [`repair`](lockhouse_core::store::Maintenance::repair), which read whole tables, may take 10 min;
///   batches go on meanwhile.
pub struct Sql<D: Dialect>(pub(crate) Arc<Inner<D>>);

pub(crate) struct Inner<D: Dialect> {
    pub(crate) pool: Arc<Pool<D>>,
    pub(crate) ids: Ids,
    pub(super) known: Known,
    pub(super) looks: Looks,
    pub(super) notifier: D::Notifier,
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
    pub(super) async fn in_own_task<T, F>(
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
