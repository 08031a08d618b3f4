//! The answers of calls that are more than a core type.

use lockhouse_core::{Epoch, Reply, Request, Timestamp};

use crate::Error;
use crate::error::unexpected;

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
