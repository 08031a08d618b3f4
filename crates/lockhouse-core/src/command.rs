//! The commands of a store, and their outcomes.

use std::time::Duration;

use crate::{
    Ask, Capacity, EndReason, Epoch, ExternalId, Key, LineTime, Note, Owner, OwnerSession,
    ProcessId, Refusal, Request, SemaphoreName, SemaphoreRow, Standing, Timestamp, Ttl, Turn,
};

/// A command. Each is safe to repeat.
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
        /// The permits, owner, TTL and priority.
        ask: Ask,
        /// Its turn among the asks that wait for the same semaphores. The default turn comes first
        /// in its batch.
        turn: Turn,
    },
    /// Update a semaphore from the template that created it: set its capacity, or delete it if it
    /// is idle.
    Follow {
        /// The semaphore.
        name: SemaphoreName,
    },
    /// Read a semaphore, and record in its line the waiters of a process.
    Stand {
        /// The semaphore.
        name: SemaphoreName,
        /// The waiters of the process.
        stand: Stand,
    },
    /// Renew a live request: it expires one TTL from now.
    Renew {
        /// The request.
        external_id: ExternalId,
        /// The new TTL. Without it, the last one is used.
        ttl: Option<Ttl>,
        /// The caller. If it belongs to a token, only requests of the same token are renewed.
        by: Option<Owner>,
    },
    /// End a live request.
    End {
        /// The request.
        external_id: ExternalId,
        /// Why it ends. If the cause does not hold, nothing ends.
        cause: Cause,
    },
    /// Begin or renew an owner's session.
    Heartbeat {
        /// The owner.
        owner: Owner,
        /// The session lapses after this long without a heartbeat, and all requests that it keeps
        /// end.
        ttl: Ttl,
        /// Refuse if the owner has no session, instead of beginning one. A repeated call gets the
        /// same answer.
        must_exist: bool,
    },
    /// Raise a semaphore's fence to that of an epoch, unless it is as high already. This includes
    /// semaphores that are deleted or never existed; they stay deleted.
    RaiseFence {
        /// The semaphore.
        name: SemaphoreName,
        /// The epoch.
        epoch: Epoch,
    },
    /// Delete an owner's session. It ends no requests: [`Command::End`] ends each of them before.
    Goodbye {
        /// The owner.
        owner: Owner,
    },
}

/// The definition of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The semaphore.
    pub name: SemaphoreName,
    /// Its capacity from now on.
    pub capacity: Capacity,
    /// Refuse if it does not exist, instead of creating it.
    pub must_exist: bool,
    /// Whether its permits have slots. Without it, an existing semaphore keeps its mode, and a new
    /// one has none.
    pub slots: Option<bool>,
    /// Refuse if it exists with another capacity, or differs in having slots, instead of changing it.
    pub if_missing: bool,
    /// Refuse unless this is its capacity now, or it has the new one already.
    pub expected: Option<Capacity>,
    /// The author of the change, for the history.
    pub changed_by: Option<Owner>,
    /// Why the capacity changes, for the history.
    pub note: Option<Note>,
}

impl Definition {
    /// A definition without conditions, author or note.
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

/// The waiters of a process for a semaphore, as [`Command::Stand`] records them in the semaphore's line. Asks that were
/// refused earlier in the same batch count as waiters too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// The process.
    pub process: ProcessId,
    /// Its waiters. `None` if it has none.
    pub standing: Option<Standing>,
    /// When the entry in the line is saved.
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
    /// In any case. The time for which free permits are left to the first in the line begins again,
    /// since the first cannot use them yet.
    Excused,
}

/// Why a request is to end. [`decide`](crate::decide()) checks the cause again under the locks, except
/// [`Released`](Cause::Released) and [`Forced`](Cause::Forced), which always hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its holder releases it, or another caller that knows its id.
    Released {
        /// The caller. If it belongs to a token, only requests of the same token are released.
        by: Option<Owner>,
    },
    /// Its TTL has passed.
    Expired,
    /// Its owner's session has lapsed.
    OwnerSilent {
        /// The owner that the request must have.
        owner: Owner,
    },
    /// Its owner is known to be gone.
    OwnerGone {
        /// The owner that the request must have.
        owner: Owner,
    },
    /// It has no TTL, has been held for `age`, and no session of its owner keeps it.
    Stale {
        /// How long it must have been held.
        age: Duration,
        /// The owner that the request must have. `None` if it must have no owner.
        owner: Option<Owner>,
    },
    /// An operator ends it by force.
    Forced {
        /// The caller.
        by: Option<Owner>,
    },
}

impl Cause {
    /// The end reason that the store keeps.
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

    /// Whether the cause is that of a sweep. If the command first ended the request for another reason, since its TTL had
    /// passed, the sweep counts that as its own.
    pub(crate) fn finds_what_is_due(&self) -> bool {
        !matches!(self, Cause::Released { .. } | Cause::Forced { .. })
    }
}

impl Command {
    /// An acquire without a wait and with no ask before it in its batch.
    pub fn acquire(ask: Ask) -> Self {
        Command::Acquire {
            ask,
            turn: Turn::default(),
        }
    }

    /// A read of a semaphore by a process without waiters.
    pub fn look(name: SemaphoreName) -> Self {
        Command::Stand {
            name,
            stand: Stand::default(),
        }
    }

    /// A release by an unnamed caller.
    pub fn release(external_id: ExternalId) -> Self {
        Command::End {
            external_id,
            cause: Cause::Released { by: None },
        }
    }

    /// The ask of an acquire.
    pub fn ask(&self) -> Option<&Ask> {
        match self {
            Command::Acquire { ask, .. } => Some(ask),
            _ => None,
        }
    }

    /// The request that the command names, if any.
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

    /// The owner whose session the command reads or writes.
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

    /// Whether a template may create a semaphore that the command names.
    pub(crate) fn may_use_a_template(&self) -> bool {
        match self {
            Command::Define(definition) => definition.if_missing && definition.creates(),
            Command::Stand { .. } => true,
            _ => self.ask().is_some(),
        }
    }

    /// The keys of the rows that the command may have to make. It makes none of those that exist.
    pub fn may_make(&self) -> impl Iterator<Item = Key> {
        let one = match self {
            Command::Acquire { ask, .. } => Some(Key::Request(ask.external_id.clone())),
            Command::Heartbeat {
                owner, must_exist, ..
            } => (!must_exist).then(|| Key::Session(owner.clone())),
            _ => None,
        };
        let may_create = match self {
            Command::Define(definition) => definition.creates(),
            Command::Acquire { .. } | Command::RaiseFence { .. } => true,
            _ => false,
        };
        let named = self.semaphores().filter(move |_| may_create);
        one.into_iter().chain(named.cloned().map(Key::Semaphore))
    }

    /// The semaphores that the command names. A command on a request also touches the semaphores of
    /// that request.
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

/// The answer to a command. A refused command changed nothing, except that it ended a request that
/// it names and whose TTL had passed.
pub type Outcome = Result<Reply, Refusal>;

/// The answer to a command that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The semaphore was defined.
    Defined {
        /// Its state after the command.
        semaphore: SemaphoreRow,
        /// Whether it did not exist before.
        created: bool,
    },
    /// The semaphore was deleted.
    Deleted,
    /// The semaphore was updated from its template.
    Followed {
        /// Its state after the command. It may be deleted.
        semaphore: SemaphoreRow,
        /// Whether this command set its capacity.
        is_resized: bool,
    },
    /// The semaphore was read.
    Seen {
        /// Its state after the command, with the line that it has if this batch is saved.
        semaphore: SemaphoreRow,
        /// The current time of its line.
        at: LineTime,
    },
    /// The fence of this semaphore, which may be deleted, is at least that of the epoch.
    Raised(SemaphoreRow),
    /// The request holds its permits.
    Granted {
        /// Its state after the command.
        request: Request,
        /// Whether this command granted it. If not, it was granted before to the same ask.
        now: bool,
        /// How long it lasts from the decision on, if it has a TTL.
        lasts: Option<Duration>,
    },
    /// The request was renewed.
    Renewed(Request),
    /// The request has ended, or the cause to end it did not hold.
    Ended {
        /// Its state after the command.
        request: Request,
        /// Whether this command ended it.
        now: bool,
        /// When this was decided, by the store's clock.
        decided_at: Timestamp,
    },
    /// The owner's session goes on.
    Heard {
        /// Its session after the heartbeat.
        session: OwnerSession,
        /// Whether this command began the session. An earlier session had then lapsed or was ended,
        /// so its requests may have ended.
        began: bool,
    },
    /// The owner has no session.
    Gone {
        /// Whether this command ended its session. If not, it had none before.
        now: bool,
    },
}
