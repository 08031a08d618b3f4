//! Error answers: problem documents.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use lockhouse::{Code, Error, Invalid};
use lockhouse_wire::Problem;

use crate::audit::Audited;
use crate::rate::{OneRate, Rate};

/// The error answer to a call.
#[derive(Debug)]
pub(crate) struct Failure(Box<Problem>);

impl Failure {
    /// A request that cannot be parsed.
    pub(crate) fn malformed(
        field: impl Into<std::borrow::Cow<'static, str>>,
        problem: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Problem::malformed(&Invalid::new(field, problem))))
    }

    /// The same problem under `status` instead of the usual status of its code.
    pub(crate) fn under(mut self, status: StatusCode) -> Self {
        self.0.status = status.as_u16();
        self
    }

    pub(crate) fn code(&self) -> Code {
        Code::parse(&self.0.code).unwrap_or(Code::Internal)
    }

    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self::of(Problem::new(code, detail))
    }

    pub(crate) fn of(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(Problem::from(&error.into())))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        log(&problem, status);
        // Strings and numbers under fixed names: they always make JSON.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = problem.retry_after_s() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(code) = Code::parse(&problem.code) {
            response.extensions_mut().insert(code);
        }
        if let Some(refused) = refused(&problem) {
            response.extensions_mut().insert(refused);
        }
        response
    }
}

/// The rate at which failed calls are logged. Callers can make any number of calls fail.
static LOGGED: OneRate = OneRate::new(Rate {
    burst: 100,
    every: Duration::from_millis(100),
});

fn log(problem: &Problem, status: StatusCode) {
    if !status.is_server_error() {
        return;
    }
    let (code, detail) = (&*problem.code, &*problem.detail);
    let Some(left_out) = LOGGED.take() else {
        return;
    };
    match status {
        StatusCode::SERVICE_UNAVAILABLE => tracing::warn!(code, detail, left_out, "a call failed"),
        _ => tracing::error!(code, detail, left_out, "a call failed"),
    }
}

/// For the audit log, if access was refused: for lack of a token or a grant, or by the names of the server.
fn refused(problem: &Problem) -> Option<Audited> {
    let refuses = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::MISDIRECTED_REQUEST,
    ];
    let is_refused = refuses
        .iter()
        .any(|status| status.as_u16() == problem.status);
    is_refused.then(|| Audited::refused(&problem.code, &problem.detail))
}
