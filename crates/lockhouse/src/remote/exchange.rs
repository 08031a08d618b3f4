//! One call to the server: asked, and asked again where that can help.
//!
//! - No connection: nothing was sent, so it is simply asked again.
//! - A connection lost, no answer in time, a proxy's 502 or 504, the answer to another call: this
//!   one may have been done. It is asked again, and its answer then read as the first one's (P9).
//! - 503: the server says to try again, and after how long.
//!
//! Only the caller's deadline bounds the tries, so a restart of the server that takes some seconds is not seen.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use lockhouse_core::Code;
use lockhouse_core::store::{self, Kind};
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::{Remote, tls};
use crate::again::pause;
use crate::{Error, Invalid};
use lockhouse_wire::{CALL_ID, Problem};

/// Within the 10 s that a caller is promised an answer in, beyond the wait asked for. Longer than
/// the server takes to give up on its store, so that it is the server's word that the caller gets.
pub(super) const PATIENCE: Duration = Duration::from_millis(9_900);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Shorter than any server or proxy keeps an idle connection, so that seldom one is used that the
/// other side is about to close.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Pauses double up to this, before the jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest answer that is read: a page has a thousand rows at most, and a server ends it much sooner.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

/// What came of a call.
pub(super) struct Asked {
    /// If it may have been done before the try that `result` is of, how long ago the first began.
    pub(super) asked_before: Option<Duration>,
    pub(super) result: Result<Answer, Error>,
}

/// An answer that says yes.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    body: Vec<u8>,
}

/// What was read.
enum Told {
    Answer(StatusCode, Hint, Vec<u8>),
    /// The answer to another call.
    ToAnother,
    TooMuch,
}

/// An answer that says no, or none.
struct Failure {
    error: Error,
    /// How long the server says to wait before the next try.
    retry_after: Duration,
    /// Another try would fail the same way, whatever the kind of `error`.
    is_final: bool,
}

/// A client for `url` and others on the same host, which trusts the authorities of `ca_file` or of the system. It goes by the
/// proxy that the environment names, unless the host is this machine.
pub(crate) fn client(url: &Url, ca_file: Option<&Path>) -> Result<Client, store::Error> {
    let builder = match is_loopback(url) {
        true => Client::builder().no_proxy(),
        false => Client::builder(),
    };
    builder
        .tls_backend_preconfigured(tls::config(url.scheme() == "https", ca_file)?)
        // A redirect may turn a PUT into a GET; who gave the URL should know where it leads.
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .user_agent(concat!("lockhouse/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| {
            store::Error::new(Kind::Configuration, "no HTTP client can be made").caused_by(error)
        })
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

impl Remote {
    /// Sends what `build` makes, each time anew, until there is an answer or `deadline` passes.
    pub(super) async fn ask(
        &self,
        deadline: Instant,
        build: impl Fn() -> RequestBuilder + Send,
    ) -> Asked {
        let began = Instant::now();
        let mut asked_before = false;
        let mut retry = 0;
        loop {
            let failure = match self.once(deadline, build()).await {
                Ok(answer) => {
                    return Asked {
                        asked_before: asked_before.then(|| began.elapsed()),
                        result: Ok(answer),
                    };
                }
                Err(failure) => failure,
            };
            let shortest = (FIRST_PAUSE * 2_u32.pow(retry.min(10))).min(LONGEST_PAUSE);
            let least = failure.retry_after;
            if !failure.may_do_better() || !pause(shortest, least, deadline).await {
                return Asked {
                    asked_before: asked_before.then(|| began.elapsed()),
                    result: Err(failure.after(asked_before)),
                };
            }
            asked_before |= failure.error.maybe_applied();
            retry += 1;
            tracing::debug!(error = %failure.error, retry, "asking the server again");
        }
    }

    pub(super) fn client(&self) -> Client {
        let client = self.client.read();
        client.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that there are are not used again: on one of them answers are out of step, and which it
    /// is nobody can tell. They close when the calls on them have ended.
    fn leave_connections(&self) {
        let ca_file = self.options.ca_file.as_deref();
        if let Ok(new) = client(self.address.base(), ca_file) {
            *self.client.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    async fn once(&self, deadline: Instant, build: RequestBuilder) -> Result<Answer, Failure> {
        let id = Uuid::now_v7().to_string();
        let build = match &self.options.token {
            Some(token) => build.bearer_auth(token.reveal()),
            None => build,
        };
        let request = build.header(CALL_ID, &id).build().map_err(|error| {
            let text = format!("no request can be made: {}", cause(&error.without_url()));
            Failure::new(Error::Internal(text))
        })?;
        // Of a read nothing can have been applied.
        let lost = match *request.method() {
            Method::GET => Kind::Unavailable,
            _ => Kind::Unknown,
        };
        let exchange = async {
            let mut response = self.client().execute(request).await?;
            let (status, hint) = (response.status(), Hint::of(&response));
            // A server of another version, or a proxy that answers by itself, has no id.
            let of_another = |told| told != id.as_str();
            let is_ours = !response.headers().get(CALL_ID).is_some_and(of_another);
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await? {
                if body.len() + piece.len() > LONGEST_ANSWER {
                    return Ok(Told::TooMuch);
                }
                body.extend_from_slice(&piece);
            }
            Ok::<_, reqwest::Error>(match is_ours {
                true => Told::Answer(status, hint, body),
                false => Told::ToAnother,
            })
        };
        let (status, hint, body) = match timeout_at(deadline, exchange).await {
            Ok(Ok(Told::Answer(status, hint, body))) => (status, hint, body),
            Ok(Ok(Told::TooMuch)) => {
                let url = self.address.shown();
                let what =
                    format!("{url} answers without end; is it the URL of a lockhouse server?");
                return Err(Failure {
                    is_final: true,
                    ..Failure::of(lost, what, None)
                });
            }
            Ok(Ok(Told::ToAnother)) => {
                self.leave_connections();
                let what = format!("{} answered another call", self.address.shown());
                return Err(Failure::of(lost, what, None));
            }
            Ok(Err(error)) if error.is_connect() => {
                let what = format!("{} can't be reached", self.address.shown());
                return Err(Failure {
                    is_final: is_untrusted(&error),
                    ..Failure::of(Kind::Unavailable, what, Some(&error))
                });
            }
            Ok(Err(error)) => {
                let what = format!("the connection to {} was lost", self.address.shown());
                return Err(Failure::of(lost, what, Some(&error)));
            }
            Err(_) => {
                let what = format!("{} did not answer in time", self.address.shown());
                return Err(Failure::of(lost, what, None));
            }
        };
        if status.is_success() {
            return Ok(Answer { status, body });
        }
        Err(self.failure(status, &hint, &body, lost))
    }

    /// The error that an answer tells of.
    fn failure(&self, status: StatusCode, hint: &Hint, body: &[u8], lost: Kind) -> Failure {
        let retry_after = match status {
            StatusCode::SERVICE_UNAVAILABLE => hint.retry_after,
            _ => Duration::ZERO,
        };
        let problem = serde_json::from_slice::<Problem>(body).unwrap_or_default();
        let is_of_the_api = match status {
            // Some other server's path is not known either.
            StatusCode::NOT_FOUND => problem.field.as_deref() != Some("path"),
            status => status != StatusCode::METHOD_NOT_ALLOWED,
        };
        if !problem.code.is_empty() && is_of_the_api {
            return Failure {
                retry_after,
                ..Failure::new(Error::from(problem))
            };
        }
        // Not the words of a server: those of a proxy before it, or of something else.
        let url = self.address.shown();
        let what = format!("{url} answered {status}");
        match status {
            StatusCode::SERVICE_UNAVAILABLE => Failure {
                retry_after,
                ..Failure::of(Kind::Unavailable, what, None)
            },
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Failure::of(lost, what, None),
            StatusCode::UNAUTHORIZED => Failure::new(Error::Denied {
                code: Code::Unauthenticated,
                detail: what,
            }),
            StatusCode::FORBIDDEN => Failure::new(Error::Denied {
                code: Code::Forbidden,
                detail: what,
            }),
            _ => {
                let to = hint.location.as_deref();
                let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
                let what = format!("{what}{to}; is it the URL of a lockhouse server?");
                Failure::of(Kind::Configuration, what, None)
            }
        }
    }

    /// What the answer holds.
    pub(super) fn json<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Error> {
        serde_json::from_slice(&answer.body).map_err(|error| match error.classify() {
            Category::Data => self.nonsense(&error),
            // The page of something else, which answers whatever it is asked.
            Category::Syntax | Category::Eof | Category::Io => {
                let url = self.address.shown();
                let what = format!("{url} answered no JSON; is it the URL of a lockhouse server?");
                store::Error::new(Kind::Configuration, what)
                    .caused_by(error)
                    .into()
            }
        })
    }

    /// What the answer holds, as the word of the library that it stands for.
    pub(super) fn read<W, T>(&self, answer: &Answer) -> Result<T, Error>
    where
        W: DeserializeOwned,
        T: TryFrom<W, Error = Invalid>,
    {
        self.made(self.json::<W>(answer)?)
    }

    pub(super) fn made<W, T: TryFrom<W, Error = Invalid>>(&self, wire: W) -> Result<T, Error> {
        T::try_from(wire).map_err(|invalid| self.nonsense(&invalid))
    }

    pub(super) fn made_all<W, T: TryFrom<W, Error = Invalid>>(
        &self,
        wire: Vec<W>,
    ) -> Result<Vec<T>, Error> {
        wire.into_iter().map(|wire| self.made(wire)).collect()
    }

    pub(super) fn nonsense(&self, why: &dyn std::error::Error) -> Error {
        let url = self.address.shown();
        Error::Internal(format!(
            "{url} answered what no lockhouse server does: {why}"
        ))
    }
}

impl Failure {
    fn of(kind: Kind, what: String, source: Option<&reqwest::Error>) -> Self {
        let error = store::Error::new(kind, what);
        let error = match source {
            Some(source) => error.caused_by(cause(source)),
            None => error,
        };
        Self::new(error)
    }

    fn new(error: impl Into<Error>) -> Self {
        Self {
            error: error.into(),
            retry_after: Duration::ZERO,
            is_final: false,
        }
    }

    /// Whether asking again can help. One who was refused for want of room asks again by waiting.
    fn may_do_better(&self) -> bool {
        !self.is_final && self.is_transient()
    }

    fn is_transient(&self) -> bool {
        match &self.error {
            Error::Store(error) => error.is_transient(),
            Error::Overloaded => true,
            _ => false,
        }
    }

    /// The error of the last try, given that one before may have been done.
    fn after(self, asked_before: bool) -> Error {
        if !asked_before || !self.is_transient() || self.error.maybe_applied() {
            return self.error;
        }
        let what = "the answer to a call was lost, and asking again failed";
        store::Error::new(Kind::Unknown, what)
            .caused_by(self.error)
            .into()
    }
}

/// What the headers of an answer say beside it.
struct Hint {
    retry_after: Duration,
    location: Option<String>,
}

impl Hint {
    fn of(response: &Response) -> Self {
        let text = |name| response.headers().get(name)?.to_str().ok();
        let seconds = text(RETRY_AFTER).and_then(|text| text.parse().ok());
        Self {
            retry_after: Duration::from_secs(seconds.unwrap_or_default()),
            location: text(LOCATION).map(str::to_owned),
        }
    }
}

/// Whether the server's certificate is not trusted.
fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidCertificate(_));
    }
    // An I/O error's source is not the error that it wraps, but that one's source.
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => is_untrusted(wrapped),
        None => error.source().is_some_and(is_untrusted),
    }
}

/// What lies at the bottom of `error`, which itself says little.
fn cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(below) = cause.and_then(|cause| cause.source()) {
        cause = Some(below);
    }
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}
