//! One call to the server, with retries where they can help.
//!
//! - No connection: nothing was sent, so the call is sent again.
//! - A lost connection, no answer in time, a proxy's 502 or 504, or the answer to another call: the
//!   server may have done the call. It is sent again, and the second answer tells the result of the
//!   first call (P9).
//! - 503: the server says when to try again.
//!
//! Only the caller's deadline limits the tries, so callers do not notice a server restart of some
//! seconds.

use std::error::Error as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
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

use super::address::Address;
use super::tls;
use crate::again::pause;
use crate::{ConnectOptions, Error, Invalid};
use lockhouse_wire::{CALL_ID, Problem};

/// A caller is promised an answer within 10 s beyond its wait. This is longer than the server waits
/// for its store, so that the caller gets the server's error.
pub(super) const PATIENCE: Duration = Duration::from_millis(9_900);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Shorter than servers and proxies keep idle connections, so that a connection is seldom used
/// which the other side is about to close.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Backoff doubles up to this, before the jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest answer that is read: a page has a thousand rows at most, and a server ends it much sooner.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A server, and how to reach it.
#[derive(Debug)]
pub(crate) struct Remote {
    client: RwLock<Client>,
    pub(super) address: Address,
    options: ConnectOptions,
}

/// The outcome of a call.
pub(super) struct CallOutcome {
    /// If an earlier try may have done the call: how long ago the first try began.
    pub(super) asked_before: Option<Duration>,
    pub(super) result: Result<Success, Error>,
}

/// A successful answer.
pub(super) struct Success {
    pub(super) status: StatusCode,
    body: Vec<u8>,
}

/// The part of an answer that was read.
enum Received {
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
    /// Another try would fail in the same way, whatever the kind of `error`.
    is_final: bool,
}

/// A client for the host of `url`, which trusts the authorities of `ca_file` or of the system. It
/// uses the proxy of the environment, unless the host is this machine.
pub(crate) fn client(url: &Url, ca_file: Option<&Path>) -> Result<Client, store::Error> {
    let builder = match is_loopback(url) {
        true => Client::builder().no_proxy(),
        false => Client::builder(),
    };
    builder
        .tls_backend_preconfigured(tls::config(url.scheme() == "https", ca_file)?)
        // A redirect may turn a PUT into a GET, so none is followed. The operator should configure
        // the final URL.
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
    /// A client of the server at `url`. It opens no connection yet.
    pub(crate) fn new(url: &str, options: ConnectOptions) -> Result<Self, store::Error> {
        let address = Address::parse(url)?;
        let client = client(address.base(), options.ca_file.as_deref())?;
        let client = RwLock::new(client);
        Ok(Self {
            client,
            address,
            options,
        })
    }

    /// Sends the request of `build`, built again for each try, until there is an answer or
    /// `deadline` passes.
    pub(super) async fn ask(
        &self,
        deadline: Instant,
        build: impl Fn() -> RequestBuilder + Send,
    ) -> CallOutcome {
        let began = Instant::now();
        let mut asked_before = false;
        let mut retry = 0;
        loop {
            let failure = match self.once(deadline, build()).await {
                Ok(answer) => {
                    return CallOutcome {
                        asked_before: asked_before.then(|| began.elapsed()),
                        result: Ok(answer),
                    };
                }
                Err(failure) => failure,
            };
            let shortest = (FIRST_PAUSE * 2_u32.pow(retry.min(10))).min(LONGEST_PAUSE);
            let least = failure.retry_after;
            if !failure.may_do_better() || !pause(shortest, least, deadline).await {
                return CallOutcome {
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

    /// Stops using the existing connections: on one of them each answer is that of another call, and
    /// the client cannot tell on which. They close when the calls on them have ended.
    fn leave_connections(&self) {
        let ca_file = self.options.ca_file.as_deref();
        if let Ok(new) = client(self.address.base(), ca_file) {
            *self.client.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    async fn once(&self, deadline: Instant, build: RequestBuilder) -> Result<Success, Failure> {
        let id = Uuid::now_v7().to_string();
        let build = match &self.options.token {
            Some(token) => build.bearer_auth(token.reveal()),
            None => build,
        };
        let request = build.header(CALL_ID, &id).build().map_err(|error| {
            let text = format!("no request can be made: {}", cause(&error.without_url()));
            Failure::new(Error::Internal(text))
        })?;
        // A read applies nothing.
        let lost = match *request.method() {
            Method::GET => Kind::Unavailable,
            _ => Kind::Unknown,
        };
        let exchange = async {
            let mut response = self.client().execute(request).await?;
            let (status, hint) = (response.status(), Hint::of(&response));
            // The answer of a server of another version, or of a proxy, has no id.
            let of_another = |told| told != id.as_str();
            let is_ours = !response.headers().get(CALL_ID).is_some_and(of_another);
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await? {
                if body.len() + piece.len() > LONGEST_ANSWER {
                    return Ok(Received::TooMuch);
                }
                body.extend_from_slice(&piece);
            }
            Ok::<_, reqwest::Error>(match is_ours {
                true => Received::Answer(status, hint, body),
                false => Received::ToAnother,
            })
        };
        let (status, hint, body) = match timeout_at(deadline, exchange).await {
            Ok(Ok(Received::Answer(status, hint, body))) => (status, hint, body),
            Ok(Ok(Received::TooMuch)) => {
                let url = self.address.shown();
                let what =
                    format!("{url} answers without end; is it the URL of a lockhouse server?");
                return Err(Failure {
                    is_final: true,
                    ..Failure::of(lost, what, None)
                });
            }
            Ok(Ok(Received::ToAnother)) => {
                self.leave_connections();
                let what = format!("{} answered another call", self.address.shown());
                return Err(Failure::of(lost, what, None));
            }
            Ok(Err(error)) if error.is_connect() => {
                let what = format!("{} can't be reached", self.address.shown());
                return Err(match tls::advice_on(&error) {
                    Some(advice) => {
                        let what = format!("{what}: {advice}");
                        Failure::permanent(what, &error)
                    }
                    None => Failure::of(Kind::Unavailable, what, Some(&error)),
                });
            }
            Ok(Err(error)) => {
                let what = format!("the connection to {} was lost", self.address.shown());
                return Err(Failure::of(lost, what, Some(&error)));
            }
            Err(_) => {
                let what = format!("{} did not answer in time; try again", self.address.shown());
                return Err(Failure::of(lost, what, None));
            }
        };
        if status.is_success() {
            return Ok(Success { status, body });
        }
        Err(self.failure(status, &hint, &body, lost))
    }

    /// The error of an answer.
    fn failure(&self, status: StatusCode, hint: &Hint, body: &[u8], lost: Kind) -> Failure {
        let retry_after = match status {
            StatusCode::SERVICE_UNAVAILABLE => hint.retry_after,
            _ => Duration::ZERO,
        };
        let problem = serde_json::from_slice::<Problem>(body).unwrap_or_default();
        let is_of_the_api = match status {
            // Another kind of server does not know the path either.
            StatusCode::NOT_FOUND => problem.field.as_deref() != Some("path"),
            status => status != StatusCode::METHOD_NOT_ALLOWED,
        };
        if !problem.code.is_empty() && is_of_the_api {
            return Failure {
                retry_after,
                ..Failure::new(Error::from(problem))
            };
        }
        // The text is not from a Lockhouse server, but from a proxy before it or another program.
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

    /// Parses the body of the answer.
    pub(super) fn json<T: DeserializeOwned>(&self, answer: &Success) -> Result<T, Error> {
        serde_json::from_slice(&answer.body).map_err(|error| match error.classify() {
            Category::Data => self.nonsense(&error),
            // A page of another program, which gives the same answer to any request.
            Category::Syntax | Category::Eof | Category::Io => {
                let url = self.address.shown();
                let what = format!("{url} answered no JSON; is it the URL of a lockhouse server?");
                store::Error::new(Kind::Configuration, what)
                    .caused_by(error)
                    .into()
            }
        })
    }

    /// Parses the body of the answer, and converts it to the library's type.
    pub(super) fn read<W, T>(&self, answer: &Success) -> Result<T, Error>
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

    /// The server is unavailable until an operator changes something.
    fn permanent(what: String, source: &reqwest::Error) -> Self {
        let error = store::Error::new(Kind::Unavailable, what);
        Self::new(error.caused_by(cause(source)).permanent())
    }

    fn new(error: impl Into<Error>) -> Self {
        Self {
            error: error.into(),
            retry_after: Duration::ZERO,
            is_final: false,
        }
    }

    /// Whether another try can help. A refusal for lack of room is not retried here: waiting does
    /// that.
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

    /// Whether the server said nothing about the call.
    fn is_no_answer(&self) -> bool {
        let is_unavailable =
            matches!(&self.error, Error::Store(error) if error.kind() == Kind::Unavailable);
        is_unavailable || self.is_transient()
    }

    /// The error of the last try, where an earlier try may have been done.
    fn after(self, asked_before: bool) -> Error {
        if !asked_before || !self.is_no_answer() || self.error.maybe_applied() {
            return self.error;
        }
        let what = "the answer to a call was lost, and asking again failed";
        store::Error::new(Kind::Unknown, what)
            .caused_by(self.error)
            .into()
    }
}

/// The hints in the headers of an answer.
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

/// The innermost cause of `error`, whose own message says little.
fn cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(below) = cause.and_then(|cause| cause.source()) {
        cause = Some(below);
    }
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}
