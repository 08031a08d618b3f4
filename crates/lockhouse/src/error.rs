//! Answers that are a defect.

use lockhouse_core::{Error, Reply};

/// A reply to another command than the one that was sent.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Internal(format!("unexpected reply {reply:?}"))
}
