//! The hosts of a URL, one of which takes writes.
//!
//! A connection is opened at the host that took the last one. If that host cannot be reached, or takes no writes, the
//! others are tried in turn. So the store follows the writer when a standby is promoted.
//!
//! No connection is opened at a host that takes no writes, not even for reads: a standby may lag behind
//! what the last writer has answered. With one host there is no choice; its answer to a write says what is wrong.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::driver::Driver;
use super::host::Host;
use super::peer;

/// After this long without an answer of a host, a [probe](super::peer) checks which kind of server it is.
const SILENCE: Duration = Duration::from_secs(1);

/// A database on several hosts.
#[derive(Debug)]
pub struct Hosts<D: Driver> {
    all: Vec<Host<D>>,
    /// The host that took the last connection.
    last: AtomicUsize,
}

impl<D: Driver> Hosts<D> {
    /// One at least; the first is tried first.
    pub(crate) fn new(all: Vec<Host<D>>) -> Self {
        Self {
            all,
            last: AtomicUsize::new(0),
        }
    }

    /// The host that took the last connection; before that, the first.
    pub(crate) fn current(&self) -> &Host<D> {
        &self.all[self.last.load(Relaxed)]
    }

    /// For messages: `HOST:PORT,HOST:PORT/DATABASE`.
    pub(crate) fn display(&self) -> String {
        let (first, others) = (&self.all[0].display, &self.all[1..]);
        let Some((address, database)) = first.rsplit_once('/') else {
            return first.clone();
        };
        let addresses = others.iter().map(|host| host.address());
        let addresses: String = addresses.map(|address| format!(",{address}")).collect();
        format!("{address}{addresses}/{database}")
    }

    /// A connection to the host that takes writes. The hosts share the time.
    pub(super) async fn connect(&self, within: Duration) -> Result<Connection<D>, Error> {
        if let [only] = &self.all[..] {
            return connect(only, within).await;
        }
        let within = within.div_f64(self.all.len() as f64);
        let last = self.last.load(Relaxed);
        let mut failures = Vec::new();
        for at in (last..self.all.len()).chain(0..last) {
            let host = &self.all[at];
            let connection = match connect(host, within).await {
                Ok(connection) => connection,
                Err(error) if error.kind() == Kind::Configuration => return Err(error),
                Err(error) => {
                    failures.push(error.to_string());
                    continue;
                }
            };
            let Some(read_only) = connection.read_only() else {
                self.last.store(at, Relaxed);
                return Ok(connection);
            };
            failures.push(format!("{}: {}", host.address(), read_only.advice));
            connection.close().await;
        }
        let none = format!("no host takes writes: {}", failures.join("; "));
        Err(Error::new(Kind::Unavailable, none))
    }
}

/// A connection to `host`.
async fn connect<D: Driver>(host: &Host<D>, within: Duration) -> Result<Connection<D>, Error> {
    let opening = timeout(within, Connection::open(host));
    let silence = async {
        sleep(SILENCE).await;
        peer::of_another_kind(host).await
    };
    let opened = tokio::select! {
        biased;
        opened = opening => opened,
        Some(error) = silence => return Err(error),
    };
    let error = match opened {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) if is_no_protocol(&error) => {
            peer::of_another_kind(host).await.unwrap_or(error)
        }
        Ok(Err(error)) => error,
        Err(_) => {
            let display = &host.display;
            let silent = format!("connecting to {display}: no answer within {within:?}");
            Error::new(Kind::Unavailable, silent)
        }
    };
    Err(error)
}

/// Whether the answer is not of this server's protocol.
fn is_no_protocol(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let driver = source.and_then(|source| source.downcast_ref::<sqlx::Error>());
    matches!(driver, Some(sqlx::Error::Protocol(_)))
}
