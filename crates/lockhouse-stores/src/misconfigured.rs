//! The error of a URL that is malformed, or of a server that is set up wrongly.

use lockhouse_core::store::{Error, Kind};

pub(crate) fn configuration(context: impl Into<String>) -> Error {
    Error::new(Kind::Configuration, context)
}
