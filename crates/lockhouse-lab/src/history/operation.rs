//! One call of one client, and how it was answered.

use std::fmt;

/// One call of one client, and its answer.
///
/// Times are microseconds of the machine's monotonic clock, which is the same for all its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client that called. A client makes one call after the other, or several at once. Clients
    /// with numbers in the same thousand belong to one process.
    pub client: u32,
    /// The call.
    pub call: Call,
    /// Before it was sent.
    pub begun: u64,
    /// After it was answered, or given up on; [`NEVER`] while neither has happened.
    pub ended: u64,
    /// How it was answered.
    pub answer: Answer,
}

/// How many clients a process has at most: they are numbered from a multiple of it.
pub const FELLOWS: u32 = 1_000;

/// The end of a call that has not ended.
pub const NEVER: u64 = u64::MAX;

/// A call of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// To be granted permits.
    Acquire(Asked),
    /// To push the expiry of a request.
    Renew {
        /// The request.
        id: String,
        /// Its new time to live. `None` keeps the old one.
        ttl_us: Option<u64>,
    },
    /// To end a request, by its holder.
    Release {
        /// The request.
        id: String,
    },
    /// To end a request, by somebody else.
    Force {
        /// The request.
        id: String,
    },
    /// To create or resize a semaphore.
    Define {
        /// The semaphore.
        semaphore: String,
        /// How many permits it shall have.
        capacity: i64,
    },
    /// To delete a semaphore.
    Delete {
        /// The semaphore.
        semaphore: String,
    },
    /// To set a template.
    Template {
        /// A prefix and `*`.
        pattern: String,
        /// How many permits each of its semaphores shall have.
        capacity: i64,
    },
    /// To extend an owner's session.
    Heartbeat {
        /// The owner.
        owner: String,
        /// For how long.
        ttl_us: u64,
    },
    /// To end all that an owner holds.
    Goodbye {
        /// The owner.
        owner: String,
    },
    /// Not a call: the client makes no calls from now on.
    Die,
}

/// An ask for permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client's name for it.
    pub id: String,
    /// Semaphores and counts, in the caller's order.
    pub permits: Vec<(String, i64)>,
    /// The owner of the permits.
    pub owner: Option<String>,
    /// Its time to live.
    pub ttl_us: Option<u64>,
    /// Whether it waits for room.
    pub waits: bool,
    /// Its priority in the line.
    pub priority: i32,
}

/// How a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The permits are held.
    Granted {
        /// The permits, with their fences.
        permits: Vec<Held>,
        /// Whether this call was granted them.
        now: bool,
    },
    /// The expiry was pushed.
    Renewed,
    /// The request is over.
    Ended {
        /// Whether this call ended it.
        now: bool,
        /// The reason of the end.
        reason: String,
    },
    /// The call was done, and there is no more to say.
    Done,
    /// The call was not done.
    Refused(Refused),
    /// The call may have been done.
    Unknown,
}

/// A permit as an answer describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The semaphore.
    pub semaphore: String,
    /// How many.
    pub count: i64,
    /// The fence, where there are fences.
    pub fence: Option<i64>,
    /// The slots, where there are slots: as text, see [`lockhouse::Slots`].
    pub slots: Option<String>,
}

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room on these semaphores.
    Exhausted(Vec<String>),
    /// More than the capacity.
    TooMuch,
    /// No such semaphore.
    UnknownSemaphore,
    /// No such request.
    UnknownRequest,
    /// The request is over, for this reason.
    Ended(String),
    /// The id stands for another ask.
    Conflict,
    /// The database ended the call because of a deadlock.
    Deadlock,
    /// Another error.
    Other(String),
}

impl Operation {
    /// The request that the call is about.
    pub fn id(&self) -> Option<&str> {
        match &self.call {
            Call::Acquire(asked) => Some(&asked.id),
            Call::Renew { id, .. } | Call::Release { id } | Call::Force { id } => Some(id),
            _ => None,
        }
    }

    /// The ask, if the call is one.
    pub fn asked(&self) -> Option<&Asked> {
        match &self.call {
            Call::Acquire(asked) => Some(asked),
            _ => None,
        }
    }

    /// Whether the answer says that the request is over.
    pub fn says_ended(&self) -> Option<&str> {
        match &self.answer {
            Answer::Ended { reason, .. } | Answer::Refused(Refused::Ended(reason)) => Some(reason),
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begun, client) = (self.begun, self.client);
        write!(f, "client {client} at {begun}")?;
        if self.ended != NEVER {
            write!(f, " to {}", self.ended)?;
        }
        write!(f, ": {:?}, answered {:?}", self.call, self.answer)
    }
}

impl Asked {
    /// The time to live as databases have it. Without one it is a day.
    pub(crate) fn ttl(&self) -> i64 {
        let us = self.ttl_us.unwrap_or(86_400_000_000);
        i64::try_from(us).unwrap_or(i64::MAX)
    }
}
