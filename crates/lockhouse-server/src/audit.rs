//! The audit log: a line of JSON, with the caller and its address, for each change of a semaphore,
//! template or token, each end or renewal of another caller's request, and each refused access.
//!
//! A handler that did such a thing puts an [`Audited`] among the parts of its answer. A [`Failure`](crate::failure::Failure) that
//! refuses access does so itself. [`write`] makes a line of it, before the caller gets the answer, and also if the caller has hung up.
//!
//! Strangers can have access refused as often as they like. So each token has a rate of lines about refused access, and all
//! callers without one have one together; the next line that is written says how many were left out. Texts of callers are cut.

use std::borrow::Cow;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use lockhouse::Timestamp;
use lockhouse_wire as wire;
use serde_json::{Value, json};

use crate::access::Principal;
pub(crate) use crate::audited::Audited;
use crate::audited::REFUSE;
use crate::peer::Peer;
use crate::rate::{Rate, Rates};

/// The destination of the lines: a file, which is appended to, or the standard output.
#[derive(Clone)]
pub struct AuditLog(Arc<Destination>);

struct Destination {
    /// `None` for the standard output.
    path: Option<PathBuf>,
    to: Mutex<Box<dyn Write + Send>>,
    /// The rates of lines about refused access, by the name of the token.
    refused: Rates<Option<String>>,
}

/// How often refused access gets a line.
const REFUSED: Rate = Rate {
    burst: 100,
    every: Duration::from_secs(1),
};

/// For how many tokens a rate is kept: those that were refused last.
const TOKENS: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not 0");

/// The longest text of a caller in a line, in bytes. A name with all its bytes percent-encoded has 765.
const MOST_TEXT: usize = 1024;

impl AuditLog {
    /// A log in the file at `path`, which is created if there is none.
    ///
    /// # Errors
    /// The [`io::Error`] of opening the file: its folder does not exist, this process may not write there, or the path is
    /// that of a folder.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = append_to(&path)?;
        Ok(Self::of(Some(path), Box::new(file)))
    }

    /// A log on the standard output.
    pub fn stdout() -> Self {
        Self::of(None, Box::new(io::stdout()))
    }

    fn of(path: Option<PathBuf>, to: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Destination {
            path,
            to: Mutex::new(to),
            refused: Rates::new(REFUSED, TOKENS),
        }))
    }

    /// Opens the file again, since it may have been moved away.
    ///
    /// # Errors
    /// As [`open`](AuditLog::open). Lines then go on to the old file.
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

/// Writes the line of a call, if there is one.
pub(crate) async fn write(
    State(log): State<Option<AuditLog>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(log) = log else {
        return next.run(request).await;
    };
    if ends_with_its_caller(&request) {
        return audited(log, request, next).await;
    }
    // A change stays when its caller hangs up, so its line must be written then too.
    match tokio::spawn(audited(log, request, next)).await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and with it this call.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Whether a call changes nothing that is audited, or waits for room while its caller does.
fn ends_with_its_caller(request: &Request) -> bool {
    match *request.method() {
        Method::PUT => {
            let route = request.extensions().get::<MatchedPath>();
            route.is_some_and(|route| route.as_str().ends_with("/v1/requests/{external_id}"))
        }
        Method::POST | Method::DELETE => false,
        _ => true,
    }
}

async fn audited(log: AuditLog, request: Request, next: Next) -> Response {
    let mut line = json!({
        "at": Timestamp::now(),
        "method": cut(request.method().as_str()),
        "path": cut(request.uri().path()),
        "call_id": call_id(request.headers()).map(cut),
    });
    let peer = Peer::of_call(request.extensions());
    let mut response = next.run(request).await;
    let Some(Audited(members)) = response.extensions_mut().remove() else {
        return response;
    };
    let said = response.extensions();
    let by = said.get::<Principal>().and_then(Principal::name);
    if members.get("action").is_some_and(|action| action == REFUSE) {
        let Some(left_out) = log.0.refused.take(by.map(str::to_owned)) else {
            return response;
        };
        if left_out > 0 {
            line["left_out"] = left_out.into();
        }
    }
    line["status"] = response.status().as_u16().into();
    line["by"] = by.into();
    line["from"] = peer.address().to_string().into();
    for (member, value) in members {
        line[member] = value;
    }
    // The file may be on a slow disk. A panic there is one of the runtime, which is about to end.
    let _ = tokio::task::spawn_blocking(move || log.write(&line)).await;
    response
}

/// `text`, cut to the length that a line may have of it.
fn cut(text: &str) -> Cow<'_, str> {
    match text.len() <= MOST_TEXT {
        true => text.into(),
        false => format!("{}…", &text[..text.floor_char_boundary(MOST_TEXT)]).into(),
    }
}

fn call_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(wire::CALL_ID)?.to_str().ok()
}
