//! An action that a handler reports to the audit log.

use std::convert::Infallible;
use std::fmt;

use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use serde_json::{Map, Value};

/// The action of a refused access.
pub(crate) const REFUSE: &str = "refuse";

/// An action that a handler did, or an access that it refused.
#[derive(Clone, Debug)]
pub(crate) struct Audited(pub(crate) Map<String, Value>);

impl Audited {
    /// Access was refused.
    pub(crate) fn refused(code: &str, detail: &str) -> Self {
        Self::new(REFUSE, "code", code).with("detail", detail)
    }

    /// `action` was done to the `kind` called `name`.
    pub(crate) fn new(action: &str, kind: &str, name: impl fmt::Display) -> Self {
        let mut members = Map::new();
        members.insert("action".into(), action.into());
        members.insert(kind.into(), name.to_string().into());
        Self(members)
    }

    /// Adds a member.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.0.insert(member.into(), value.into());
        self
    }
}

impl IntoResponseParts for Audited {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

impl IntoResponse for Audited {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}
