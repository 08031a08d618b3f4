//! Why a call failed.

use crate::{Code, Invalid, Refusal, store};

/// Why a call failed. [`code`](Error::code) is the stable word to branch on, which the HTTP API uses too.
///
/// ```
/// use lockhouse_core::{Error, Refusal};
///
/// fn advice(error: &Error) -> &'static str {
///     match error {
///         Error::Refused(Refusal::Exhausted(_)) => "there is no room now; try later",
///         error if error.maybe_applied() => "repeat the call with the same id",
///         error if error.is_transient() => "try again",
///         _ => "correct the call",
///     }
/// }
/// assert_eq!(advice(&Error::Overloaded), "try again");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value is malformed or out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store refused the call. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store, or the server in front of it, could not be reached, did not answer, or failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Too many calls wait in this process or in the server, or the server refuses more for another
    /// reason. Nothing was changed; back off and try again.
    #[error("too many calls; try again later")]
    Overloaded,
    /// The server does not know the caller, or does not allow this call.
    #[error("{detail}")]
    Denied {
        /// [`Code::Unauthenticated`] or [`Code::Forbidden`].
        code: Code,
        /// Advice on what to do.
        detail: String,
    },
    /// A defect in Lockhouse, or in what is between the client and the server.
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

    /// Whether the call may have been done in spite of the error. Repeat it with the same id to find out (P9).
    pub fn maybe_applied(&self) -> bool {
        matches!(self, Error::Store(error) if error.maybe_applied())
    }
}
