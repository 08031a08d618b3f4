//! Errors in values that a caller passed.

use std::borrow::Cow;

/// A field is malformed or out of bounds. The message names the field and its bounds.
///
/// ```
/// use lockhouse_core::{Count, Invalid};
///
/// let invalid: Invalid = Count::new(0).unwrap_err();
/// assert_eq!(invalid.field(), "count");
/// assert_eq!(invalid.to_string(), format!("count {}", invalid.problem()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    field: Cow<'static, str>,
    problem: Cow<'static, str>,
}

impl Invalid {
    /// An error on `field`. The message is the field's name followed by `problem`.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// The same problem on another field.
    pub fn on(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: field.into(),
            ..self
        }
    }

    /// The problem with the field.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The field's name, as in the JSON of the HTTP API.
    pub fn field(&self) -> &str {
        &self.field
    }
}
