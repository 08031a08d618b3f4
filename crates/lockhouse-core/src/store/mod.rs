//! What keeps the permits: the traits of a store, and its errors.
//!
//! A new kind of store implements [`Store`], [`Templates`], [`Listing`], [`Upkeep`], [`WaitingList`], [`Tokens`], [`Notification`] and [`Migration`],
//! and with that is a [`FullStore`]. None has a default method, so a store that forgets one does not compile. A [`Layer`] stands before a store
//! and changes some of its calls.

mod batch;
mod cursor;
mod error;
mod layer;
mod listing;
mod migration;
mod notification;
mod pool_use;
mod templates;
mod tokens;
mod transaction;
mod upkeep;
mod waiting_list;

use std::fmt;

use async_trait::async_trait;

use crate::{ExternalId, Footprint, Outcome, Request, Semaphore, SemaphoreName};

pub use batch::Batch;
pub use cursor::{Cursor, Held};
pub use error::{Error, Kind};
pub use layer::{Call, Layer};
pub use listing::{Holders, Listing, Page};
pub use migration::Migration;
pub use notification::Notification;
pub use pool_use::PoolUse;
pub use templates::Templates;
pub use tokens::{MAX_TOKENS, NewToken, TokenList, Tokens};
pub use transaction::{Commit, Transaction, transact, transact_at_once};
pub use upkeep::{Due, Purge, Stale, Upkeep};
pub use waiting_list::{SHOWN_FOR, Shown, ShownWaiter, Waiter, WaitingList};

/// Keeps semaphores and requests, durably, for any number of processes at once.
///
/// # Contract
/// - [`transact`](Store::transact) is the only call that changes permits. It takes effect in full
///   or not at all, and is serializable against every other `transact` on the same store by any
///   process: between reading what [`decide`](crate::decide()) is given and the commit of its
///   changes, nobody else may have changed any of it. A store that locks takes its locks in the
///   order of the [`Footprint`]; one that is optimistic makes its write conditional on what it
///   read, and begins again when the condition fails.
/// - **Time.** [`Loaded::now`](crate::Loaded::now) is the store's clock, read after the locks were held. A store that
///   cannot tell the time, but whose processes share one machine, takes that machine's clock (SQLite, memory). Otherwise it
///   keeps the latest time of a commit, and takes the later of that and the process's clock: so time never goes
///   back, and the fastest clock decides when a request expires. Such a store says so in its documentation.
/// - **Durability.** When `transact` answers, its changes survive a crash of the store's process, and of its machine
///   where the database is set to write each commit to disk. A store warns when it is not. What a
///   store cannot promise, such as a failover to a replica that lags, its documentation names. Memory keeps nothing.
/// - **Batches.** A batch has at most [`max_batch`](Store::max_batch) commands. Each touches at most 64 semaphores, one request and
///   one owner.
/// - A batch of which nothing must be saved writes nothing.
/// - An error says truly whether the batch may have been applied
///   ([`Error::maybe_applied`]), and if so, what was decided ([`Error::decided`]) where that is known.
///   After an error the store holds no lock and no half-read connection.
/// - Every call ends within 10 s, one way or the other.
/// - A store with row locks waits for one for about half a second. Then it rolls back and answers with
///   [`Kind::Locked`] and the rows that are still locked, so that a row which another transaction
///   keeps delays only the commands that need it (P13).
/// - Dropping the future of a call leaves the store usable; the call may still take effect.
/// - The reads see what is committed, and wait for no lock.
/// - Names and ids are compared by bytes.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Locks and loads what the batch touches, decides, saves and commits.
    ///
    /// One outcome a command, in their order.
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error>;

    /// The most commands that a batch may have, at least 1.
    fn max_batch(&self) -> usize;

    /// Those of `rows` that another transaction keeps locked, for longer than a commit takes. Waits for none
    /// of them, and keeps none locked. A store without row locks answers with none.
    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error>;

    /// The semaphore called `name`, if it exists and is not deleted.
    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error>;

    /// Those semaphores of `names` that exist and are not deleted, in any order. It is asked again
    /// and again while somebody waits for them: one statement should do.
    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error>;

    /// The request known by `external_id`, live or ended.
    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error>;

    /// Whether the store answers and its schema is the one that this version needs.
    async fn ready(&self) -> Result<(), Error>;

    /// The connections to its database, now; none if it keeps no pool of them.
    fn pool_use(&self) -> Option<PoolUse>;
}

/// A store with all that Lockhouse asks of one.
pub trait FullStore:
    Store + Templates + Listing + Upkeep + WaitingList + Tokens + Notification + Migration
{
}

impl<S: Store + Templates + Listing + Upkeep + WaitingList + Tokens + Notification + Migration>
    FullStore for S
{
}
