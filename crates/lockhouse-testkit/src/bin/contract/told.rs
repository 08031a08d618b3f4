//! The result of an operation.

use lockhouse::Error;
use serde_json::Value;

/// The result of an operation.
pub(super) type Told = Result<Value, Failure>;

/// Why an operation failed: one of the server's codes, `lost` or `cancelled`.
pub(super) struct Failure {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self::new(error.code().as_str(), error.to_string())
    }
}

/// Prints a message, on a line.
pub(super) fn say(message: &Value) {
    println!("{message}");
}
