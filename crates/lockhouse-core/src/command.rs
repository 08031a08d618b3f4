//! What can be asked of a store, and how it answers.

use std::time::Duration;

use crate::{
    Ask, Capacity, EndReason, Epoch, ExternalId, LineTime, Note, Owner, OwnerSession, ProcessId,
    Refusal, Request, Semaphore, SemaphoreName, Standing, Timestamp, Ttl, Turn,
};

/// One thing to do. Each is safe to do again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Create a semaphore, or set the capacity of one that exists.
    Define(Definition),
    /// Delete a semaphore that nobody holds.
    Delete {
        /// The semaphore.
        name: SemaphoreName,
    },
    /// Grant all of an ask, or none.
    Acquire {
        /// What is asked for.
        ask: Ask,
        /// Its turn among the asks that wait for the same semaphores. The default one comes first in its batch.
        turn: Turn,
    },
    /// Do to a semaphore what the template says that made it: set its capacity, or delete it as nobody uses it.
    Follow {
        /// The semaphore.
        name: SemaphoreName,
    },
    /// Say how a semaphore is, and take note of who waits for it at a process.
    Stand {
        /// The semaphore.
        name: SemaphoreName,
        /// Who waits.
        stand: Stand,
    },
    /// Push a live request's expiry to now plus a time to live.
    Renew {
        /// The request.
        external_id: ExternalId,
        /// The new time to live; without it, the one last given.
        ttl: Option<Ttl>,
        /// Who. If that is a token's, only what the same token made is renewed.
        by: Option<Owner>,
    },
    /// End a live request.
    End {
        /// The request.
        external_id: ExternalId,
        /// Why. Where the cause does not hold, nothing is ended.
        cause: Cause,
    },
    /// Say that an owner lives, and will say so again within a time.
    Heartbeat {
        /// The owner.
        owner: Owner,
        /// After so long in silence, all that it holds is freed.
        ttl: Ttl,
        /// Refuse if no session goes on, instead of beginning one. Asked again, as its answer was
        /// lost, it says the same.
        must_exist: bool,
    },
    /// Raise a semaphore's fence to that of an epoch, unless it is there or beyond. One that is deleted,
    /// or was never there, is raised too, and stays deleted.
    RaiseFence {
        /// The semaphore.
        name: SemaphoreName,
        /// The epoch.
        epoch: Epoch,
    },
    /// Forget an owner's session. What it holds is ended before, by commands of their own.
    Goodbye {
        /// The owner.
        owner: Owner,
    },
}

/// What a semaphore shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The semaphore.
    pub name: SemaphoreName,
    /// Its capacity from now on.
    pub capacity: Capacity,
    /// Refuse if it does not exist, instead of creating it.
    pub must_exist: bool,
    /// Whether its permits have slots. Without it, an existing semaphore stays as it is, and a new one has none.
    pub slots: Option<bool>,
    /// Refuse if it exists with another capacity, or differs in having slots, instead of changing it.
    pub if_missing: bool,
    /// Refuse unless this is its capacity now, or it has the new one already.
    pub expected: Option<Capacity>,
    /// Who says so, for the audit.
    pub changed_by: Option<Owner>,
    /// Why, for the audit.
    pub note: Option<Note>,
}

impl Definition {
    /// A definition without conditions, said by nobody.
    pub fn new(name: SemaphoreName, capacity: Capacity) -> Self {
        Self {
            name,
            capacity,
            must_exist: false,
            slots: None,
            if_missing: false,
            expected: None,
            changed_by: None,
            note: None,
        }
    }

    /// Whether it creates the semaphore if it does not exist.
    pub(crate) fn creates(&self) -> bool {
        !self.must_exist && self.expected.is_none()
    }
}

/// What a process says of its callers that wait for a semaphore. Those who were refused before, in the same batch, count
/// as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// The process.
    pub process: ProcessId,
    /// How its waiters stand; none without.
    pub standing: Option<Standing>,
    /// When this is saved.
    pub saved: Saved,
}

/// When a [`Stand`] is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Saved {
    /// If the batch writes the semaphore anyway.
    #[default]
    Along,
    /// In any case.
    Always,
    /// In any case; and the free permits are left to the first in the line from now on, who cannot use them yet.
    Excused,
}

/// Why a request shall end. All but the first and the last are looked at again under the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its holder gives it back, or somebody else who knows its id.
    Released {
        /// Who. If that is a token's, only what the same token made is released.
        by: Option<Owner>,
    },
    /// Its time has passed.
    Expired,
    /// Its owner's session has lapsed.
    OwnerSilent {
        /// Whose it must be.
        owner: Owner,
    },
    /// Its owner is known to be gone.
    OwnerGone {
        /// Whose it must be.
        owner: Owner,
    },
    /// It has no time to live, has been held for so long, and no session of its owner keeps it.
    Stale {
        /// How long.
        age: Duration,
        /// Whose it must be; nobody's without.
        owner: Option<Owner>,
    },
    /// An operator says so.
    Forced {
        /// Who.
        by: Option<Owner>,
    },
}

impl Cause {
    /// The reason that is kept.
    pub fn reason(&self) -> EndReason {
        match self {
            Cause::Released { .. } => EndReason::Released,
            Cause::Expired => EndReason::Expired,
            Cause::OwnerSilent { .. } | Cause::OwnerGone { .. } => EndReason::OwnerDead,
            Cause::Stale { .. } => EndReason::Stale,
            Cause::Forced { .. } => EndReason::Forced,
        }
    }

    /// The caller that asks for the end. An end by time, or by the upkeep's rules, has none.
    pub fn by(&self) -> Option<&Owner> {
        match self {
            Cause::Released { by } | Cause::Forced { by } => by.as_ref(),
            Cause::Expired
            | Cause::OwnerSilent { .. }
            | Cause::OwnerGone { .. }
            | Cause::Stale { .. } => None,
        }
    }

    /// Whether it looks for what is due by itself, so that an expiry found on the way counts too.
    pub(crate) fn finds_what_is_due(&self) -> bool {
        !matches!(self, Cause::Released { .. } | Cause::Forced { .. })
    }
}

impl Command {
    /// An acquire that does not wait and has nobody before it in its batch.
    pub fn acquire(ask: Ask) -> Self {
        Command::Acquire {
            ask,
            turn: Turn::default(),
        }
    }

    /// A look at a semaphore by a process that nobody waits at.
    pub fn look(name: SemaphoreName) -> Self {
        Command::Stand {
            name,
            stand: Stand::default(),
        }
    }

    /// A release by nobody that is named.
    pub fn release(external_id: ExternalId) -> Self {
        Command::End {
            external_id,
            cause: Cause::Released { by: None },
        }
    }

    /// What it asks to be granted, if it asks for that.
    pub fn ask(&self) -> Option<&Ask> {
        match self {
            Command::Acquire { ask, .. } => Some(ask),
            _ => None,
        }
    }

    /// The request that it is about, if it is about one.
    pub fn external_id(&self) -> Option<&ExternalId> {
        match self {
            Command::Define(_)
            | Command::Delete { .. }
            | Command::Follow { .. }
            | Command::Stand { .. }
            | Command::RaiseFence { .. }
            | Command::Heartbeat { .. }
            | Command::Goodbye { .. } => None,
            Command::Acquire { ask, .. } => Some(&ask.external_id),
            Command::Renew { external_id, .. } | Command::End { external_id, .. } => {
                Some(external_id)
            }
        }
    }

    /// The owner whose session it reads or writes.
    pub fn session_of(&self) -> Option<&Owner> {
        match self {
            Command::Heartbeat { owner, .. }
            | Command::Goodbye { owner }
            | Command::End {
                cause:
                    Cause::OwnerSilent { owner }
                    | Cause::Stale {
                        owner: Some(owner), ..
                    },
                ..
            } => Some(owner),
            _ => None,
        }
    }

    /// Whether a semaphore that it names and that does not exist may be made by a template.
    pub fn may_use_a_template(&self) -> bool {
        match self {
            Command::Define(definition) => definition.if_missing && definition.creates(),
            Command::Stand { .. } => true,
            _ => self.ask().is_some(),
        }
    }

    /// The semaphore that it may delete.
    pub fn may_delete(&self) -> Option<&SemaphoreName> {
        match self {
            Command::Delete { name } | Command::Follow { name } => Some(name),
            _ => None,
        }
    }

    /// The semaphores that it names itself. A command on a request also touches the semaphores
    /// that the request holds.
    pub fn semaphores(&self) -> impl Iterator<Item = &SemaphoreName> {
        let one = match self {
            Command::Define(Definition { name, .. })
            | Command::Delete { name }
            | Command::Follow { name }
            | Command::RaiseFence { name, .. }
            | Command::Stand { name, .. } => Some(name),
            _ => None,
        };
        let asked = self.ask().into_iter().flat_map(Ask::permits);
        one.into_iter().chain(asked.map(|(name, _)| name))
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
    /// The semaphore is as its template says.
    Followed {
        /// As it is now, which may be deleted.
        semaphore: Semaphore,
        /// Whether its capacity was set by this.
        is_resized: bool,
    },
    /// A semaphore was looked at.
    Seen {
        /// As it is now, with the line as it is if this batch is saved.
        semaphore: Semaphore,
        /// The time of its line.
        at: LineTime,
    },
    /// The semaphore, deleted or not, whose fence is at least that of the epoch.
    Raised(Semaphore),
    /// The request holds its permits.
    Granted {
        /// As it is now.
        request: Request,
        /// Whether it was granted by this command; if not, it was granted before to the same ask.
        now: bool,
        /// How long it lasts from the decision on, if it has a time to live.
        lasts: Option<Duration>,
    },
    /// The request's expiry was pushed.
    Renewed(Request),
    /// The request is over, or the cause to end it did not hold.
    Ended {
        /// As it is now.
        request: Request,
        /// Whether this command ended it.
        now: bool,
        /// When this was decided, by the store's clock.
        decided_at: Timestamp,
    },
    /// The owner's heartbeat was heard.
    Heard {
        /// Its session as it is now.
        session: OwnerSession,
        /// Whether this command began it: none went on until now, so what the owner held under an
        /// earlier one may have been freed.
        began: bool,
    },
    /// The owner has no session.
    Gone {
        /// Whether this command ended it.
        now: bool,
    },
}
