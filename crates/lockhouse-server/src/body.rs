//! Bodies: `application/json` of at most 64 KiB, read in full within 10 s. Less of both for what strangers may call.
//!
//! [`receive`] reads the body before the call is admitted, and so before the handler. The extractors parse it.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes};
use lockhouse_wire::{MAX_BODY_BYTES, Object};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::failure::Failure;

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    bytes: usize,
    time: Duration,
}

impl Limits {
    pub(crate) const OF_CALLERS: Self = Self {
        bytes: MAX_BODY_BYTES,
        time: Duration::from_secs(10),
    };

    /// A login is a token in JSON.
    pub(crate) const OF_STRANGERS: Self = Self {
        bytes: 256,
        time: Duration::from_secs(2),
    };
}

/// How much of a body beyond the limit is read and discarded, so that a caller that is still
/// sending gets the answer.
const MOST_DISCARDED: usize = 1024 * 1024;

/// A JSON body, of a request or an answer.
pub(crate) struct Json<T>(pub(crate) T);

/// A body that may be left out.
pub(crate) struct OptionalJson<T>(pub(crate) T);

/// No body, or an object without members: the parameters are in the path and the query.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        parse(&received(request).await?).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let body = received(request).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        parse(&body).map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// `request` with its whole body. GET and HEAD have none, and one that is sent is left unread.
pub(crate) async fn receive(request: Request, limits: Limits) -> Result<Request, Failure> {
    if request.method().is_safe() {
        return Ok(request);
    }
    let says_json = says_json(request.headers())?;
    refuse_encodings(request.headers())?;
    if awaits_a_go_ahead(request.headers()) && says_too_long(request.body(), limits) {
        return Err(too_long(limits));
    }
    let (parts, body) = request.into_parts();
    let read = timeout(limits.time, collect(body, limits)).await;
    let read = read.map_err(|_| {
        let problem = format!("did not arrive within {} s", limits.time.as_secs());
        Failure::malformed("body", problem).under(StatusCode::REQUEST_TIMEOUT)
    })??;
    match says_json || read.is_empty() {
        true => Ok(Request::from_parts(parts, Body::from(read))),
        false => Err(unsupported("is missing; send application/json")),
    }
}

/// The body of a request that was [received](receive).
async fn received(request: Request) -> Result<Bytes, Failure> {
    let body = request.into_body().collect().await;
    let body = body.map_err(|error| Failure::malformed("body", format!("was cut off: {error}")))?;
    Ok(body.to_bytes())
}

/// Whether a content type is given. Refuses any type but JSON, also for an empty body: it may be a
/// form's, which a page of any site can send.
fn says_json(headers: &HeaderMap) -> Result<bool, Failure> {
    let mut given = headers.get_all(CONTENT_TYPE).iter().peekable();
    let is_given = given.peek().is_some();
    match given.all(is_json) {
        true => Ok(is_given),
        false => Err(unsupported("is not application/json in UTF-8; send that")),
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json") && parts.all(is_in_utf_8)
}

/// Whether `parameter` names no other charset than UTF-8, the only one that JSON may have (RFC 8259, section 8.1).
fn is_in_utf_8(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or_default();
    !name.trim().eq_ignore_ascii_case("charset")
        || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
}

/// Refuses a compressed body, since only unpacking would show its size.
fn refuse_encodings(headers: &HeaderMap) -> Result<(), Failure> {
    let mut given = headers.get_all(CONTENT_ENCODING).iter();
    match given.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        true => Ok(()),
        false => {
            let problem = "is not supported; send the body without compression";
            let failure = Failure::malformed("content-encoding", problem);
            Err(failure.under(StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
    }
}

/// Whether the caller sends the body only once the server has said `100 Continue`. The HTTP library says
/// so when the body is read.
fn awaits_a_go_ahead(headers: &HeaderMap) -> bool {
    let mut expected = headers.get_all(EXPECT).iter();
    expected.any(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Whether the length that the caller gave is above the limit.
fn says_too_long(body: &Body, limits: Limits) -> bool {
    body.size_hint().lower() > limits.bytes as u64
}

fn too_long(limits: Limits) -> Failure {
    let problem = format!("is too long, the most is {} bytes", limits.bytes);
    Failure::malformed("body", problem).under(StatusCode::PAYLOAD_TOO_LARGE)
}

fn unsupported(problem: &'static str) -> Failure {
    Failure::malformed("content-type", problem).under(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

async fn collect(mut body: Body, limits: Limits) -> Result<Vec<u8>, Failure> {
    // In one piece, as far as the length is known: one that grows leaves holes in the heap.
    let announced = body.size_hint().lower().min(limits.bytes as u64);
    let mut read = Vec::with_capacity(announced as usize);
    let mut discarded = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Failure::malformed("body", format!("was cut off: {error}")))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if discarded == 0 && read.len() + data.len() <= limits.bytes {
            read.extend_from_slice(data);
            continue;
        }
        discarded += data.len();
        if discarded > MOST_DISCARDED {
            break;
        }
    }
    if discarded > 0 {
        return Err(too_long(limits));
    }
    Ok(read)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let Object(parsed) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." || error.inner().is_syntax() || error.inner().is_eof() => {
                "body".to_owned()
            }
            path => path,
        };
        Failure::malformed(field, format!("cannot be read: {}", error.inner()))
    })?;
    let ended = deserializer.end();
    ended.map_err(|error| Failure::malformed("body", format!("cannot be read: {error}")))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_wire::{Acquire, Define};

    fn status_and_detail<T: DeserializeOwned>(body: &str) -> String {
        let failure = parse::<T>(body.as_bytes()).err().unwrap();
        format!("{failure:?}")
    }

    #[test]
    fn an_unreadable_value_names_its_field() {
        let permits = |permit: &str| format!(r#"{{"permits":[{{"semaphore":"a"}},{permit}]}}"#);
        let acquires = [
            (
                permits(r#"{"semaphore":7}"#),
                "permits[1].semaphore cannot be read: invalid type",
            ),
            (
                permits(r#"{"semaphore":"b","count":1.5}"#),
                "permits[1].count cannot be read",
            ),
            (permits(r#"{"semaphore":"b","x":1}"#), "unknown field `x`"),
            (permits(r#"{"count":1}"#), "missing field `semaphore`"),
            (permits("").replace("[{", "[{{"), "body cannot be read: "),
        ];
        for (body, expected) in acquires {
            let detail = status_and_detail::<Acquire>(&body);
            assert!(detail.contains(expected), "{body}: {detail}");
        }
        let defines = [
            ("", "body cannot be read: EOF"),
            ("{\"capacity\":1", "body cannot be read: EOF"),
            ("{\"capacity\":1}x", "body cannot be read: trailing"),
            ("[]", "body cannot be read: invalid"),
            (
                "{\"capacity\":1,\"capacity\":2}",
                "duplicate field `capacity`",
            ),
            (
                "{\"capacity\":1.5}",
                "capacity cannot be read: 1.5 is not a whole number",
            ),
        ];
        for (body, expected) in defines {
            let detail = status_and_detail::<Define>(body);
            assert!(detail.contains(expected), "{body}: {detail}");
        }
    }
}
