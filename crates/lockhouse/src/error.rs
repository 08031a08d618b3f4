//! Replies that show a defect.

use lockhouse_core::{Error, Reply};

/// The error of a reply that does not fit the command.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Internal(format!("unexpected reply {reply:?}"))
}
