//! The audit log: a line of JSON, with the caller and its address, for each change of a semaphore,
//! template or token, each end or renewal of another caller's request, and each refused access.
//!
//! The handler of such a call adds an [`Audited`] to its answer's extensions. A
//! [`Failure`](crate::failure::Failure) that refuses access does so itself. [`write`] writes the
//! line.

use std::convert::Infallible;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use lockhouse::Timestamp;
use lockhouse_wire as wire;
use serde_json::{Map, Value, json};

use crate::access::Principal;
use crate::peer::Peer;

/// The destination of the lines: a file, which is appended to, or the standard output.
#[derive(Clone)]
pub struct AuditLog(Arc<Inner>);

struct Inner {
    /// `None` for the standard output.
    path: Option<PathBuf>,
    to: Mutex<Box<dyn Write + Send>>,
}

impl AuditLog {
    /// A log in the file at `path`, which is created if there is none.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = append_to(&path)?;
        Ok(Self(Arc::new(Inner {
            path: Some(path),
            to: Mutex::new(Box::new(file)),
        })))
    }

    /// A log on the standard output.
    pub fn stdout() -> Self {
        Self(Arc::new(Inner {
            path: None,
            to: Mutex::new(Box::new(io::stdout())),
        }))
    }

    /// Opens the file again, since it may have been moved away.
    ///
    /// # Errors
    /// If the file cannot be opened. Lines then go on to the old file.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.0.path {
            let file = append_to(path)?;
            *self.0.to.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(file);
        }
        Ok(())
    }

    /// Written in one piece, so that lines of several processes do not mix.
    fn write(&self, line: &Value) {
        let line = format!("{line}\n");
        let mut to = self.0.to.lock().unwrap_or_else(PoisonError::into_inner);
        let written = to.write_all(line.as_bytes()).and_then(|()| to.flush());
        if let Err(error) = written {
            tracing::error!(%error, "a line of the audit log is lost");
        }
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLog").field(&self.0.path).finish()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// An action that a handler did, or an access that it refused.
#[derive(Clone, Debug)]
pub(crate) struct Audited(Map<String, Value>);

impl Audited {
    /// Records that `action` was done to the `kind` called `name`.
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

/// Writes the line of a call, if there is one.
pub(crate) async fn write(
    State(log): State<Option<AuditLog>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(log) = log else {
        return next.run(request).await;
    };
    let call = json!({
        "at": Timestamp::now(),
        "method": request.method().as_str(),
        "path": request.uri().path(),
        "call_id": call_id(request.headers()),
    });
    let peer = Peer::of_call(request.extensions());
    let mut response = next.run(request).await;
    if let Some(Audited(members)) = response.extensions_mut().remove() {
        let said = response.extensions();
        let principal = said.get::<Principal>();
        // Behind a proxy, the address that the proxy names.
        let peer = said.get::<Peer>().copied().unwrap_or(peer);
        let mut line = call;
        line["status"] = response.status().as_u16().into();
        line["by"] = principal.and_then(Principal::name).into();
        line["from"] = peer.address().to_string().into();
        for (member, value) in members {
            line[member] = value;
        }
        log.write(&line);
    }
    response
}

fn call_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(wire::CALL_ID)?.to_str().ok()
}
