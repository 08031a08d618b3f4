//! `lockhouse serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockhouse::{Lockhouse, Upkeep};
use lockhouse_server::{Tls, TlsFiles};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::hold::{Signals, or_signal};
use crate::place::{self, Place};
use crate::upkeep::{Ages, Intervals};

/// Serve a store over HTTP
///
/// Prints one line when it listens (with -o json, an object with its `url` and its `store`), and logs to stderr
/// (RUST_LOG sets the level, by default info). SIGTERM or SIGINT stops it when the calls under way are done; a
/// second signal stops it at once. A server keeps no state: run as many as you like on one database. One of them
/// at a time does the upkeep: it ends expired requests and deletes old ones.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse serve --url mysql://app@db/lockhouse
  lockhouse serve --listen 0.0.0.0:7117 --tls-cert server.pem --tls-key server.key
  lockhouse serve --listen 0.0.0.0:7117 --behind-proxy
  lockhouse serve --sweep-every 30s --check 'job-*=https://ci.example/jobs/{owner}'
  lockhouse serve --check 'job-*=mysql://app@db/jobs SELECT alive FROM jobs WHERE id = ?'
  lockhouse list --url http://127.0.0.1:7117")]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes a free one
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:7117",
        value_parser = host_and_port
    )]
    listen: String,
    /// Whether callers need an access token: always (tokens), never (none), or as soon as the store has one (auto)
    #[arg(
        long,
        env = "LOCKHOUSE_AUTH",
        value_name = "HOW",
        value_enum,
        default_value_t = Auth::Auto
    )]
    auth: Auth,
    /// A PEM file with the server's certificate, and those between it and the root, to speak TLS with; read again when it
    /// changes, and on SIGHUP
    #[arg(
        long,
        env = "LOCKHOUSE_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the key of the server's certificate
    #[arg(
        long,
        env = "LOCKHOUSE_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// A PEM file with the certificates that those of callers are verified by: a caller with a certificate acts as the token
    /// that has one of its DNS names or URIs
    #[arg(
        long,
        env = "LOCKHOUSE_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_client_ca: Option<PathBuf>,
    /// TLS ends at a trusted proxy, which says in X-Forwarded-For who calls
    #[arg(long, env = "LOCKHOUSE_BEHIND_PROXY")]
    behind_proxy: bool,
    /// Listen off loopback without tokens or without TLS: whoever reaches the server may do everything, and see
    /// everything on its way
    #[arg(long, env = "LOCKHOUSE_INSECURE")]
    insecure: bool,
    /// How many calls may wait for room at once; further calls are answered `overloaded`
    #[arg(
        long,
        env = "LOCKHOUSE_MAX_WAITERS",
        value_name = "N",
        default_value_t = 10_000
    )]
    max_waiters: usize,
    #[command(flatten)]
    intervals: Intervals,
    #[command(flatten)]
    ages: Ages,
}

impl Serve {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let place = global.place()?;
        if place.is_server() {
            return Err(place::invalid(
                "is a server's; serve needs a store: sqlite:PATH, mysql://…, postgres://…, redis://…, memory:",
            ));
        }
        let upkeep = self.ages.of(self.intervals.of(Upkeep::default())?);
        let mut signals = Signals::listen([Signal::SIGINT, Signal::SIGTERM])?;
        // First the port: it is the likelier to be taken, and cheaper to find out about.
        let cannot_listen =
            |error| Failure::other(format!("cannot listen on {}: {error}", self.listen));
        let listener = TcpListener::bind(&self.listen)
            .await
            .map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        match lockhouse_server::raise_open_files_limit() {
            Ok(files) => tracing::debug!(files, "open files"),
            Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
        }
        let tls = self.tls()?;
        self.refuse_without_tls(address)?;
        let lockhouse = or_signal(place.connect_to_serve(), &mut signals).await?;
        let auth = self.auth_on(address, &lockhouse, &place).await?;
        lockhouse.limit_waiters(self.max_waiters)?;
        let maintaining = lockhouse.maintain(upkeep)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (store, url) = (place.public(), format!("{scheme}://{address}"));
        global.output.print(
            || json!({"url": url, "store": store}),
            || format!("lockhouse serves {store} on {url}"),
        )?;
        if let Some(tls) = tls.clone() {
            tokio::spawn(reload_on_hangup(tls, Signals::listen([Signal::SIGHUP])?));
        }
        let (stop, mut stopped) = watch::channel(false);
        let mut told = stopped.clone();
        tokio::spawn(async move {
            let first = signals.end().await;
            tracing::info!(signal = %first, "stopping when the calls under way are done");
            // They are gone only if the server has ended already.
            let _ = stop.send(true);
            let second = signals.end().await;
            std::process::exit(Exit::of_signal(second).code());
        });
        let shutdown = async move {
            let _ = stopped.changed().await;
        };
        // Another may go on with the upkeep while the last calls are answered here.
        let leaving = async {
            let _ = told.changed().await;
            maintaining.stop().await;
            Ok(())
        };
        let options = lockhouse_server::Options {
            auth,
            behind_proxy: self.behind_proxy,
            tls,
        };
        let serving = lockhouse_server::serve_with(lockhouse, listener, options, shutdown);
        tokio::try_join!(serving, leaving)
            .map_err(|error| Failure::other(format!("the server failed: {error}")))?;
        Ok(Exit::OK)
    }
}

/// Whether callers need a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Auth {
    Auto,
    Tokens,
    None,
}

/// Whether only programs of this machine reach `address`.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Reads the certificates again on each SIGHUP.
async fn reload_on_hangup(tls: Tls, mut signals: Signals) {
    loop {
        signals.next().await;
        match tls.reload() {
            Ok(_) => tracing::info!("the certificate files were read again"),
            Err(error) => {
                tracing::error!(%error, "the certificate files cannot be used; the old ones stay");
            }
        }
    }
}

impl Serve {
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return Ok(None);
        };
        let files = TlsFiles {
            certificate,
            key,
            client_ca: self.tls_client_ca.clone(),
        };
        let tls = Tls::load(files);
        tls.map(Some)
            .map_err(|error| Failure::with_exit(Exit::USAGE, error.to_string()))
    }

    fn refuse_without_tls(&self, address: SocketAddr) -> Result<(), Failure> {
        if is_loopback(address) || self.tls_cert.is_some() || self.behind_proxy || self.insecure {
            return Ok(());
        }
        Err(unsafe_on(
            address,
            "without TLS, tokens could be read on their way; give --tls-cert and --tls-key, or \
             --behind-proxy if TLS ends at a proxy before it",
        ))
    }

    /// Whether callers need a token. Off loopback they do, and the store must have one.
    async fn auth_on(
        &self,
        address: SocketAddr,
        lockhouse: &Lockhouse,
        place: &Place,
    ) -> Result<lockhouse_server::Auth, Failure> {
        let auth = match self.auth {
            Auth::Auto => lockhouse_server::Auth::Auto,
            Auth::Tokens => lockhouse_server::Auth::Tokens,
            Auth::None => lockhouse_server::Auth::None,
        };
        if is_loopback(address) || self.insecure {
            return Ok(auth);
        }
        if self.auth == Auth::None {
            return Err(unsafe_on(
                address,
                "without tokens, whoever reaches it may do everything; leave --auth none out",
            ));
        }
        if lockhouse.tokens().await?.is_empty() {
            let url = place.public();
            let what = format!(
                "there is no access token yet; make one first: lockhouse token create admin --grant \
                 'admin:*' --url {url}"
            );
            return Err(unsafe_on(address, &what));
        }
        Ok(lockhouse_server::Auth::Tokens)
    }
}

fn unsafe_on(address: SocketAddr, why: &str) -> Failure {
    let message = format!(
        "will not listen on {address}, which other machines reach: {why}; or give --insecure to do \
         so all the same"
    );
    Failure::with_exit(Exit::USAGE, message)
}

fn host_and_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    match parts {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.into()),
        _ => Err("takes HOST:PORT, such as 127.0.0.1:7117 or [::1]:0".into()),
    }
}
