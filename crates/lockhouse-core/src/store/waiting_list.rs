//! Published lists of waiters.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::Error;
use crate::{Count, ExternalId, Owner, Priority, ProcessId, SemaphoreName, Timestamp};

/// A waiter of this process, as the process publishes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownWaiter {
    /// The id of its ask.
    pub external_id: ExternalId,
    /// Its owner, if it has one.
    pub owner: Option<Owner>,
    /// How many permits it asks for.
    pub count: Count,
    /// Its priority.
    pub priority: Priority,
    /// How long it has waited, by the process's monotonic clock.
    pub waited: Duration,
    /// The semaphores that have too few free permits for it.
    pub lacks: Vec<SemaphoreName>,
}

impl ShownWaiter {
    /// The waiter as listed; `now` is the store's clock when it had waited for `waited`.
    pub fn at(self, now: Timestamp) -> Waiter {
        Waiter {
            external_id: self.external_id,
            owner: self.owner,
            count: self.count,
            priority: self.priority,
            since: now.saturating_sub(self.waited).unwrap_or(now),
            lacks: self.lacks,
        }
    }
}

/// A waiter of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The id of its ask.
    pub external_id: ExternalId,
    /// Its owner, if it has one.
    pub owner: Option<Owner>,
    /// How many permits of the semaphore it asks for.
    pub count: Count,
    /// Its priority.
    pub priority: Priority,
    /// When it arrived, by the store's clock.
    pub since: Timestamp,
    /// The semaphores that have too few free permits for it. Empty if it only waits for its turn.
    pub lacks: Vec<SemaphoreName>,
}

impl Waiter {
    /// The time of arrival in microseconds, moved by the priority. Waiters are served in this
    /// order.
    pub fn place_us(&self) -> i64 {
        self.since.as_microsecond() - self.priority.worth_us()
    }
}

/// The published waiters of a semaphore.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The store's clock at the time of the read.
    pub now: Timestamp,
    /// The waiters of each process, in their order within the process.
    pub processes: Vec<(ProcessId, Vec<Waiter>)>,
}

/// When processes last wrote their lists of waiters.
#[derive(Clone, Debug)]
pub struct ShownAt {
    /// The store's clock at the time of the read.
    pub now: Timestamp,
    /// The semaphore and the process of each list, and when the process last wrote it.
    pub lists: Vec<(SemaphoreName, ProcessId, Timestamp)>,
}

/// Keeps a list of the waiters of each process, for people to read. No promise depends on it.
///
/// # Contract
/// - The list of a process for a semaphore is one row, written in one commit together with the
///   store's time.
/// - The calls wait only for locks of the process's own rows.
/// - Each call ends within 10 s.
#[async_trait]
pub trait WaitingList: fmt::Debug + Send + Sync + 'static {
    /// Writes the lists of `process` for the semaphores of `waiting`, and deletes those for the semaphores of `gone`.
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error>;

    /// The lists of all processes for `name` that were written within the last [`SHOWN_FOR`].
    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error>;

    /// When each process last wrote its list for each of `names`.
    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error>;

    /// Deletes at most `limit` lists that were written more than `age` ago. Returns how many.
    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error>;
}

/// How long a list is valid. A process writes it every 5 s.
pub const SHOWN_FOR: Duration = Duration::from_secs(15);
