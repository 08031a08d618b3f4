//! The one error of the library.

use lockhouse_core::store;
use lockhouse_core::{Code, Invalid, Refusal, Reply};

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

/// A reply to another command than the one that was sent.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Internal(format!("unexpected reply {reply:?}"))
}
