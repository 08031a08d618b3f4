//! What can be asked of a store, and how it answers.

use crate::{
    Ask, Capacity, EndReason, ExternalId, Note, Owner, Refusal, Request, Semaphore, SemaphoreName,
    Ttl,
};

/// One thing to do. Each is safe to do again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Create a semaphore, or set the capacity of one that exists.
    Define {
        /// The semaphore.
        name: SemaphoreName,
        /// Its capacity from now on.
        capacity: Capacity,
        /// Refuse if it does not exist, instead of creating it.
        must_exist: bool,
        /// Who says so, for the audit.
        changed_by: Option<Owner>,
        /// Why, for the audit.
        note: Option<Note>,
    },
    /// Delete a semaphore that nobody holds.
    Delete {
        /// The semaphore.
        name: SemaphoreName,
    },
    /// Grant all of an ask, or none.
    Acquire(Ask),
    /// Push a live request's expiry to now plus a time to live.
    Renew {
        /// The request.
        external_id: ExternalId,
        /// The new time to live; without it, the one last given.
        ttl: Option<Ttl>,
    },
    /// End a live request.
    End {
        /// The request.
        external_id: ExternalId,
        /// Why. [`EndReason::Expired`] ends it only if its time has passed.
        reason: EndReason,
    },
}

impl Command {
    /// A release by the holder.
    pub fn release(external_id: ExternalId) -> Self {
        Command::End {
            external_id,
            reason: EndReason::Released,
        }
    }

    /// The request that it is about, if it is about one.
    pub fn external_id(&self) -> Option<&ExternalId> {
        match self {
            Command::Define { .. } | Command::Delete { .. } => None,
            Command::Acquire(ask) => Some(&ask.external_id),
            Command::Renew { external_id, .. } | Command::End { external_id, .. } => {
                Some(external_id)
            }
        }
    }

    /// The semaphores that it names itself. A command on a request also touches the semaphores
    /// that the request holds.
    pub fn semaphores(&self) -> impl Iterator<Item = &SemaphoreName> {
        let (one, ask) = match self {
            Command::Define { name, .. } | Command::Delete { name } => (Some(name), None),
            Command::Acquire(ask) => (None, Some(ask)),
            Command::Renew { .. } | Command::End { .. } => (None, None),
        };
        one.into_iter().chain(
            ask.into_iter()
                .flat_map(|ask| ask.permits().map(|(name, _)| name)),
        )
    }
}

/// How a command was answered. A refused command changed nothing, except that a request which it
/// names and whose time had passed is ended.
pub type Outcome = Result<Reply, Refusal>;

/// How a command that was not refused was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The semaphore has the capacity.
    Defined {
        /// As it is now.
        semaphore: Semaphore,
        /// Whether it did not exist before.
        created: bool,
    },
    /// The semaphore is gone.
    Deleted,
    /// The request holds its permits.
    Granted {
        /// As it is now.
        request: Request,
        /// Whether it was granted by this command; if not, it was granted before to the same ask.
        now: bool,
    },
    /// The request's expiry was pushed.
    Renewed(Request),
    /// The request is over, or for [`EndReason::Expired`] not yet due.
    Ended {
        /// As it is now.
        request: Request,
        /// Whether this command ended it.
        now: bool,
    },
}
