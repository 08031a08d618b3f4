//! What a [`Lockhouse`](crate::Lockhouse) needs done, by an engine in this process or by a server.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{Cursor, Held, Holders, Page, Waiter};
use lockhouse_core::{
    CapacityChange, Command, Definition, Epoch, ExternalId, NamePrefix, Owner, OwnerSession, Reply,
    Request, Semaphore, SemaphoreName, Timestamp,
};

use crate::Error;
use crate::client::unexpected;
use crate::engine::Engine;

#[async_trait]
pub(crate) trait Service: std::fmt::Debug + Send + Sync {
    /// Does one command. An acquire that finds no room waits its turn for at most `wait`.
    ///
    /// Dropping the future gives up a place in the queue; a command that has begun goes on.
    async fn execute(&self, command: Command, wait: Duration) -> Result<Reply, Error>;
    /// Defines a semaphore; also says whether it was created.
    async fn define(&self, definition: Definition) -> Result<(SemaphoreStatus, bool), Error>;
    /// Ends all that `owner` holds, and its session; how many requests those were.
    async fn goodbye(&self, owner: &Owner) -> Result<u64, Error>;
    async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error>;
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreStatus>, Error>;
    async fn request(&self, external_id: &ExternalId) -> Result<Request, Error>;
    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error>;
    async fn history(&self, name: &SemaphoreName, limit: u32)
    -> Result<Vec<CapacityChange>, Error>;
    /// The waiters of all processes, in order.
    async fn waiting(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error>;
    async fn migrate(&self) -> Result<(), Error>;
    async fn ready(&self) -> Result<(), Error>;
    /// Waits for a moment until other processes know that callers of this one have left their lines.
    async fn leave_lines(&self);
    /// The engine in this process, if there is one: upkeep is its business.
    fn engine(&self) -> Option<&Engine>;
}

/// A semaphore, and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreStatus {
    /// The semaphore as the store has it.
    pub semaphore: Semaphore,
    /// How many calls wait for it, at all processes.
    pub waiting: u32,
}

/// What a heartbeat did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The owner's session as it is now.
    pub session: OwnerSession,
    /// Whether this call began it. None went on until then: if there was one before, it had lapsed,
    /// or the owner was said to have left, and what it held may have been freed.
    pub began: bool,
}

/// What raising the fences did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The epoch of the highest fence that there was.
    pub old: Epoch,
    /// The epoch that all fences are in, or beyond.
    pub new: Epoch,
    /// How many semaphores were raised, deleted ones too.
    pub semaphores: u64,
}

/// What a release did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The request as it is now.
    pub request: Request,
    /// Whether this call ended it; if not, it had ended before. Where a server's answer was lost
    /// and it was asked again, what ended in the same way meanwhile, or just before, counts as ended by
    /// this call.
    pub now: bool,
    /// When this was decided, by the store's clock: `released_at`, or later if it had ended before.
    pub decided_at: Timestamp,
}

impl Released {
    pub(crate) fn of(reply: Reply) -> Result<Self, Error> {
        match reply {
            Reply::Ended {
                request,
                now,
                decided_at,
            } => Ok(Self {
                request,
                now,
                decided_at,
            }),
            other => Err(unexpected(&other)),
        }
    }
}
