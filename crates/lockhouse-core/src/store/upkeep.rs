//! What sweeps, purges and verification ask of a store.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{Error, Page};
use crate::{Owner, Recount, Request, Semaphore, SemaphoreName, Timestamp};

/// Live requests that seem due to end.
#[derive(Clone, Copy, Debug)]
pub enum Due<'a> {
    /// Their time has passed, or their owner's session has.
    Lapsed {
        /// Only those that hold permits of one of these.
        on: Option<&'a [SemaphoreName]>,
    },
    /// They are this owner's.
    OwnedBy(&'a Owner),
}

/// What a look at the oldest live requests found.
#[derive(Clone, Debug, Default)]
pub struct Stale {
    /// Those that no session keeps, in any order.
    pub requests: Vec<Request>,
    /// Who was made later was not looked at; none, if there is nobody to look at any more.
    pub looked_to: Option<Timestamp>,
}

/// Rows of the past that may go.
#[derive(Clone, Copy, Debug)]
pub enum Purge {
    /// Requests, with their permits, that ended so long ago.
    Requests {
        /// How long.
        age: Duration,
    },
    /// Capacity changes that were made so long ago.
    CapacityChanges {
        /// How long.
        age: Duration,
    },
    /// Sessions that lapsed so long ago, of owners who hold nothing.
    Sessions {
        /// How long.
        age: Duration,
    },
    /// Semaphores that were deleted so long ago, once no request that ended before that is kept. The row of the
    /// [`Epoch`](crate::Epoch) gets their highest fence first, so that a name which comes back begins above it (P7).
    Semaphores {
        /// How long.
        age: Duration,
    },
}

/// Finds what is due to end, deletes what is past, and counts anew.
///
/// # Contract
/// - Finding changes nothing and waits for no lock. It may be out of date: what it finds is ended by
///   [`transact`](super::Store::transact), which looks again.
/// - Whatever is due and stays so is found, by repeated calls if it is more than `limit`.
/// - Each call ends within 10 s, except `recount` and `repair`: those read everything that is kept, and may take as
///   long as ten minutes.
/// - No call touches what is live, but for what `repair` sets.
#[async_trait]
pub trait Upkeep: fmt::Debug + Send + Sync + 'static {
    /// At most `limit` live requests that seem due to end. Reading them changes nothing: each is
    /// looked at again, under locks, by the [`Cause`](crate::Cause) that it is then ended by.
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error>;

    /// Looks at the live requests without a time to live that have been held for `age`, from the
    /// oldest on: at those made after `page.after`, `page.limit` of them and who was made in the same
    /// moment as the last. Says which of them seem due to end, since their owner has no session that
    /// goes on. So a look costs what it looks at, however many a session keeps.
    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error>;

    /// Owners of live requests, in byte order.
    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error>;

    /// Deletes at most `limit` rows of the past, in one transaction; how many they were. Fewer where
    /// others have some locked; 0 where there is nothing to delete, or others have the oldest locked.
    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error>;

    /// Counts everything anew, in one consistent read.
    async fn recount(&self) -> Result<Recount, Error>;

    /// Sets the counter of `name`, and its fence if that is behind, to what its permits say, under
    /// the semaphore's lock, and files misfiled requests that hold it so that a refusal finds them. Says what the semaphore
    /// was, if something was off.
    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error>;
}
