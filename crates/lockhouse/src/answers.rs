//! The answers of calls that are more than a core type.

use lockhouse_core::{Epoch, OwnerSession, Reply, Request, Semaphore, Timestamp};

use crate::Error;
use crate::error::unexpected;

/// A semaphore, and how many calls wait for it.
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
