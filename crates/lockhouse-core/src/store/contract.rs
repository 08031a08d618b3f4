//! The trait that every store implements, and its contract.

use std::fmt;

use async_trait::async_trait;

use super::{
    Batch, Connections, Error, Listing, Maintenance, Migration, Notification, Templates, Tokens,
    WaitingList,
};
use crate::{ExternalId, Footprint, Outcome, Request, SemaphoreName, SemaphoreRow};

/// Keeps semaphores and requests, durably, for any number of processes at once.
///
/// # Contract
/// - [`transact`](Store::transact) is the only call that changes permits. It takes effect in full
///   or not at all, and is serializable against every other `transact` of any process on the same
///   store. Between reading the rows for [`decide`](crate::decide()) and the commit of its changes,
///   no other transaction may change those rows. A store that locks takes its locks in the order of
///   the [`Footprint`]. An optimistic store makes its write conditional on what it read, and begins
///   again when the condition fails.
/// - **Time.** [`Loaded::now`](crate::Loaded::now) is the store's clock, read after the locks were
///   held. A store without a clock, whose processes share one machine, uses that machine's clock
///   (SQLite, memory). Any other store without a clock keeps the latest time of a commit, and takes
///   the later of that and the process's clock. So its time never goes back, and the fastest clock
///   decides when a request expires. Such a store says so in its documentation.
/// - **Durability.** When `transact` answers, its changes survive a crash of the store's process.
///   They also survive a crash of its machine, if the database writes each commit to disk. A store
///   warns when the database does not. Its documentation names what it cannot promise, such as a
///   failover to a replica that lags. Memory keeps nothing.
/// - **Batches.** A batch has at most [`max_batch`](Store::max_batch) commands. Each touches at most 64 semaphores, one request and
///   one owner.
/// - A batch without changes writes nothing.
/// - An error says whether the batch may have been applied ([`Error::maybe_applied`]), and if so,
///   its outcomes ([`Error::decided`]) if they are known. After an error the store holds no lock
///   and no half-read connection.
/// - Every call ends within 10 s, with an answer or an error.
/// - A store with row locks waits for one for about half a second. Then it rolls back and returns
///   [`Kind::Locked`](super::Kind::Locked) with the rows that are still locked, so that a locked row delays only the
///   commands that need it (P13).
/// - Dropping the future of a call leaves the store usable. The call may still take effect.
/// - Reads see committed rows, and wait for no lock.
/// - Names and ids are compared by bytes.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Locks and loads the rows that the batch touches, decides, saves and commits.
    ///
    /// Returns one outcome for each command, in their order.
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error>;

    /// The most commands that a batch may have, at least 1.
    fn max_batch(&self) -> usize;

    /// The rows among `rows` that another transaction keeps locked for longer than a commit takes. The call waits for no
    /// row. It may wait for a [gap](crate::Gap), for up to two seconds. It keeps nothing locked. A store without row locks
    /// returns none.
    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error>;

    /// The semaphore `name`, if it exists and is not deleted.
    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error>;

    /// The semaphores among `names` that exist and are not deleted, in any order. `names` has
    /// no duplicates. The poller calls this often, so it should be one statement.
    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error>;

    /// The request known by `external_id`, live or ended.
    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error>;

    /// Whether the store answers and its schema is the one that this version needs.
    async fn ready(&self) -> Result<(), Error>;

    /// The connections that its calls use, without asking the database.
    fn connections(&self) -> Connections;
}

/// A store with all traits that Lockhouse needs.
pub trait FullStore:
    Store + Templates + Listing + Maintenance + WaitingList + Tokens + Notification + Migration
{
}

impl<S: Store + Templates + Listing + Maintenance + WaitingList + Tokens + Notification + Migration>
    FullStore for S
{
}
