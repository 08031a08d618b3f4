//! The calls of sweeps, purges and verification.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{Error, Page};
use crate::{Owner, Recount, Request, SemaphoreName, SemaphoreRow, Timestamp};

/// Which live requests seem due to end.
#[derive(Clone, Copy, Debug)]
pub enum Due<'a> {
    /// Requests whose TTL has passed, or whose owner's session has lapsed.
    Lapsed {
        /// Only requests that hold permits of one of these semaphores.
        on: Option<&'a [SemaphoreName]>,
    },
    /// All requests of this owner.
    OwnedBy(&'a Owner),
}

/// The result of reading the oldest live requests.
#[derive(Clone, Debug, Default)]
pub struct Stale {
    /// Requests that no session keeps, in any order.
    pub requests: Vec<Request>,
    /// How far the read came: requests that were created later were not read. `None` if it read all.
    pub looked_to: Option<Timestamp>,
}

/// Old rows that may be deleted.
#[derive(Clone, Copy, Debug)]
pub enum Purge {
    /// Requests, with their permits, that ended more than `age` ago.
    Requests {
        /// The age.
        age: Duration,
    },
    /// Capacity changes that were made more than `age` ago.
    CapacityChanges {
        /// The age.
        age: Duration,
    },
    /// Sessions that lapsed more than `age` ago, of owners that hold nothing.
    Sessions {
        /// The age.
        age: Duration,
    },
    /// Semaphores that were deleted more than `age` ago, once no request is kept that ended before
    /// their deletion. The row of the [`Epoch`](crate::Epoch) is first raised to their highest
    /// fence, so that a name that is used again begins above it (P7).
    Semaphores {
        /// The age.
        age: Duration,
    },
}

/// Finds requests that are due to end, deletes old rows, and verifies counters.
///
/// # Contract
/// - Finding due requests changes nothing and waits for no lock. The result may be out of date:
///   [`transact`](super::Store::transact), which ends the requests, checks again.
/// - A request that is due and stays so is found, by repeated calls if there are more than `limit`.
/// - Each call ends within 10 s, except `recount` and `repair`, which may read whole tables and take up
///   to ten minutes.
/// - No call changes live rows, except `repair`.
#[async_trait]
pub trait Maintenance: fmt::Debug + Send + Sync + 'static {
    /// At most `limit` live requests that seem due to end. Reading them changes nothing: the
    /// [`Cause`](crate::Cause) by which each is then ended is checked again under locks.
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error>;

    /// Reads live requests without a TTL that have been held for `age`, oldest first: `page.limit`
    /// of those created after `page.after`, and any created at the same moment as the last. Returns
    /// those that seem due to end, since no live session of their owner keeps them. So the cost
    /// depends only on the rows read, however many requests a session keeps.
    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error>;

    /// Owners of live requests, in byte order.
    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error>;

    /// Deletes at most `limit` old rows in one transaction. Returns how many. The number is lower
    /// if other transactions keep some rows locked. It is 0 if there is nothing to delete, or if
    /// the oldest rows are locked.
    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error>;

    /// Counts all rows again. Each semaphore is compared with the permits of the same moment; two
    /// semaphores may be read at different moments.
    async fn recount(&self) -> Result<Recount, Error>;

    /// Corrects the counter of `name` from its permits, under the semaphore's lock, and its fence
    /// if that is too low. Also corrects the index entries of its misfiled requests, so that a
    /// refusal finds them. Returns the semaphore as it was before, if something was wrong.
    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error>;
}
