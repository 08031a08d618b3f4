//! Why a call failed, and the stable codes that callers branch on.

use std::borrow::Cow;
use std::fmt;

use crate::{Capacity, Count, EndReason, ExternalId, Owner, SemaphoreName, store};

/// Why a call failed.
///
/// [`code`](Error::code) is the stable word to branch on, the same that the HTTP API uses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value is malformed or out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store answered, and the answer is no. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store, or the server in front of it, could not be reached or did not answer.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// More is asked at once than can be kept in mind. Nothing was changed; try again later.
    #[error("too many calls are waiting; try again later")]
    Overloaded,
    /// Who asks is not known, or may not.
    #[error("{detail}")]
    Denied {
        /// [`Code::Unauthenticated`] or [`Code::Forbidden`].
        code: Code,
        /// What to do about it.
        detail: String,
    },
    /// A defect, in Lockhouse or in what lies between.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Error::Invalid(_) => Code::InvalidRequest,
            Error::Refused(refusal) => refusal.code(),
            Error::Store(error) => match error.kind() {
                store::Kind::Configuration => Code::InvalidRequest,
                store::Kind::Rejected => Code::Internal,
                _ => Code::StoreUnavailable,
            },
            Error::Overloaded => Code::Overloaded,
            Error::Denied { code, .. } => *code,
            Error::Internal(_) => Code::Internal,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Refused(refusal) => refusal.code() == Code::Exhausted,
            Error::Store(error) => error.is_transient(),
            Error::Overloaded => true,
            Error::Invalid(_) | Error::Denied { .. } | Error::Internal(_) => false,
        }
    }

    /// Whether what was asked may have been done all the same. The same call again, with the same
    /// id, tells (P9).
    pub fn maybe_applied(&self) -> bool {
        matches!(self, Error::Store(error) if error.maybe_applied())
    }
}

/// A field is malformed or out of its bounds. Says which field and which bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    field: Cow<'static, str>,
    problem: Cow<'static, str>,
}

impl Invalid {
    /// A `problem` that reads on after the field's name: `capacity` `is -1, it goes from 0 …`.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// The same problem, on the field called `field`.
    pub fn on(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: field.into(),
            ..self
        }
    }

    /// What is wrong with the field.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The field's name, as in the JSON of the HTTP API.
    pub fn field(&self) -> &str {
        &self.field
    }
}

/// Why a well-formed command was not done. Nothing was changed, except that a request whose time
/// had passed may have been ended on the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A semaphore that the command names does not exist.
    #[error("semaphore {} does not exist; create it first", Names(.0))]
    UnknownSemaphore(Vec<SemaphoreName>),
    /// No request has this id.
    #[error("request \"{0}\" does not exist")]
    UnknownRequest(ExternalId),
    /// The ask is for more permits than the semaphore has at all, and it has some.
    #[error("{asked} permits of \"{semaphore}\" can never be granted, its capacity is {capacity}")]
    ExceedsCapacity {
        /// The semaphore.
        semaphore: SemaphoreName,
        /// What was asked of it.
        asked: Count,
        /// What it has.
        capacity: Capacity,
    },
    /// There is no room now on these semaphores.
    #[error("no room now on semaphore {}", Names(.0))]
    Exhausted(Vec<SemaphoreName>),
    /// These semaphores are closed: their capacity is 0, until an operator resizes them. An ask may
    /// wait for that, and holds up nobody who wants its other semaphores.
    #[error("semaphore {} is closed, its capacity is 0; wait, or resize it to open it", Names(.0))]
    Closed(Vec<SemaphoreName>),
    /// There may be room, but others wait for these semaphores and come first. Whoever keeps the
    /// line takes this for [`Exhausted`](Refusal::Exhausted); it is apart so that they can tell.
    #[error("others come first on semaphore {}", Names(.0))]
    OthersFirst(Vec<SemaphoreName>),
    /// The id stands for a request with other permits or another owner.
    #[error("external_id \"{0}\" stands for another ask; pick another id")]
    IdempotencyConflict(ExternalId),
    /// The request has ended.
    #[error("request \"{external_id}\" has ended: {reason}")]
    RequestEnded {
        /// The request.
        external_id: ExternalId,
        /// How it ended.
        reason: EndReason,
    },
    /// The owner's session does not go on: it has lapsed or was ended, or there never was one.
    #[error("the session of \"{0}\" has ended; what it kept may have been freed")]
    SessionEnded(Owner),
    /// The semaphore's capacity is not what the change was to be made from.
    #[error("capacity of \"{name}\" is {capacity}, not {expected}; look again before changing it")]
    CapacityChanged {
        /// The semaphore.
        name: SemaphoreName,
        /// What it was expected to be.
        expected: Capacity,
        /// What it is.
        capacity: Capacity,
    },
    /// The request has no time to live to renew, and none was given.
    #[error("ttl_ms is missing, and request \"{0}\" was acquired without one")]
    NoTtl(ExternalId),
    /// The semaphore can't be deleted while permits are held.
    #[error("semaphore \"{name}\" can't be deleted while {in_use} permits are held")]
    SemaphoreInUse {
        /// The semaphore.
        name: SemaphoreName,
        /// The permits held.
        in_use: u32,
    },
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::UnknownSemaphore(_) => Code::UnknownSemaphore,
            Refusal::UnknownRequest(_) => Code::UnknownRequest,
            Refusal::ExceedsCapacity { .. } => Code::ExceedsCapacity,
            Refusal::Exhausted(_) | Refusal::Closed(_) | Refusal::OthersFirst(_) => Code::Exhausted,
            Refusal::IdempotencyConflict(_) => Code::IdempotencyConflict,
            Refusal::RequestEnded { .. } => Code::RequestEnded,
            Refusal::SessionEnded(_) => Code::SessionEnded,
            Refusal::CapacityChanged { .. } => Code::CapacityChanged,
            Refusal::NoTtl(_) => Code::InvalidRequest,
            Refusal::SemaphoreInUse { .. } => Code::SemaphoreInUse,
        }
    }

    /// Whether a release can give what was lacking. A waiter so refused holds up those behind it.
    pub fn lacks_room(&self) -> bool {
        matches!(self, Refusal::Exhausted(_) | Refusal::OthersFirst(_))
    }
}

struct Names<'a>(&'a [SemaphoreName]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().enumerate() {
            write!(f, "{}\"{name}\"", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)*) => {
        /// What went wrong, in one stable word: the `code` of the HTTP API's problem documents.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code,)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    /// Malformed, or out of bounds.
    InvalidRequest = "invalid_request",
    /// Asks for more than the semaphore has at all.
    ExceedsCapacity = "exceeds_capacity",
    /// No such semaphore.
    UnknownSemaphore = "unknown_semaphore",
    /// No such request.
    UnknownRequest = "unknown_request",
    /// The semaphore is held.
    SemaphoreInUse = "semaphore_in_use",
    /// The capacity is not what it was expected to be.
    CapacityChanged = "capacity_changed",
    /// The id stands for another ask.
    IdempotencyConflict = "idempotency_conflict",
    /// The request has ended.
    RequestEnded = "request_ended",
    /// The owner's session has ended.
    SessionEnded = "session_ended",
    /// No room now, or not within the wait.
    Exhausted = "exhausted",
    /// Who is asking is not known.
    Unauthenticated = "unauthenticated",
    /// Who is asking may not.
    Forbidden = "forbidden",
    /// The store did not answer; try again.
    StoreUnavailable = "store_unavailable",
    /// Too much is asked at once; try again.
    Overloaded = "overloaded",
    /// A defect, in Lockhouse or in what lies under it.
    Internal = "internal",
}

impl Code {
    /// The code that `text` spells.
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
