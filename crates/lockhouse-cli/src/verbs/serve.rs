//! `lockhouse serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockhouse::{Lockhouse, Upkeep};
use lockhouse_server::{AuditLog, StoreMetrics, Tls, TlsFiles};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::hold::{Signals, or_signal};
use crate::service_manager;
use crate::setting::{Setting, as_file};
use crate::target::{self, Target};
use crate::traces::{self, Traces};
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
  lockhouse serve --config lockhouse.toml --check-config
  lockhouse serve --sweep-every 30s --check 'job-*=https://ci.example/jobs/{owner}'
  lockhouse serve --check 'job-*=mysql://app@db/jobs SELECT alive FROM jobs WHERE id = ?'
  lockhouse list --url http://127.0.0.1:7117")]
pub(crate) struct Serve {
    /// A TOML file with settings: the keys are the names of these flags, with _ for -, and `url`. A
    /// flag wins over its variable, and a variable over the file
    #[arg(long, env = "LOCKHOUSE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings and print them, instead of serving: each with its source, and without passwords
    #[arg(long)]
    check_config: bool,
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,
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
    /// A PEM file with the server's certificate, followed by the intermediate ones. With it the server
    /// speaks TLS. The file is read again when it changes, and on SIGHUP
    #[arg(long, env = "LOCKHOUSE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the key of the server's certificate
    #[arg(long, env = "LOCKHOUSE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A PEM file with the CA certificates that verify the certificates of callers. A caller with such
    /// a certificate acts as the token whose name is one of the certificate's DNS names or URIs
    #[arg(long, env = "LOCKHOUSE_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// TLS ends at a trusted proxy, which says in X-Forwarded-For who calls
    #[arg(long, env = "LOCKHOUSE_BEHIND_PROXY")]
    behind_proxy: bool,
    /// Listen off loopback without tokens or without TLS: every caller that reaches the server may
    /// do everything, and the network sees all traffic
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
    /// How many calls of one token may wait for room at once; further calls are answered `overloaded`
    #[arg(
        long,
        env = "LOCKHOUSE_MAX_WAITERS_PER_TOKEN",
        value_name = "N",
        default_value_t = 5_000
    )]
    max_waiters_per_token: usize,
    /// How many calls of tokens may be under way at once, not counting those that wait for room. One token gets at most
    /// three quarters of them. Further calls queue
    #[arg(
        long,
        env = "LOCKHOUSE_MAX_CALLS",
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max_calls: u32,
    /// Where a line of JSON goes for each change of a semaphore, a template or a token, each use of `force`, and each
    /// refused access: a file, or - for stdout. On SIGHUP the file is opened again
    #[arg(long, env = "LOCKHOUSE_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Which semaphores have separate gauges in /metrics: those whose names begin with PREFIX, at
    /// most 1000 of each; without one, the 20 busiest of the first 1000 by name. Repeat it for more
    /// prefixes. In the variable, write one per line
    #[arg(
        long = "metrics-prefix",
        env = "LOCKHOUSE_METRICS_PREFIX",
        value_name = "PREFIX",
        value_delimiter = '\n'
    )]
    metrics_prefixes: Vec<String>,
    /// The collector that gets traces of calls, by OTLP over HTTP, such as http://127.0.0.1:4318; without it nothing
    /// is traced
    #[arg(
        long,
        env = "LOCKHOUSE_OTLP_ENDPOINT",
        value_name = "URL",
        value_parser = traces::collector
    )]
    otlp_endpoint: Option<String>,
    /// How the lines of the log are written, to stderr
    #[arg(
        long,
        env = "LOCKHOUSE_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Text
    )]
    log_format: LogFormat,
    #[command(flatten)]
    intervals: Intervals,
    #[command(flatten)]
    ages: Ages,
}

impl Serve {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let target = global.target()?;
        if target.is_server() {
            return Err(target::invalid(
                "is a server's; serve needs a store: sqlite:PATH, mysql://…, postgres://…, redis://…, memory:",
            ));
        }
        let upkeep = self.ages.of(self.intervals.of(Upkeep::default())?);
        let tls = self.tls()?;
        if self.check_config {
            self.refuse_unsafe_settings().await?;
            return self.print_settings(global, &target);
        }
        let audit = self.audit()?;
        let mut signals = Signals::listen([Signal::SIGINT, Signal::SIGTERM])?;
        // First the port: it is the more likely failure, and quick to check.
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
        self.refuse_without_tls(address)?;
        let (lockhouse, store_metrics) = or_signal(measured(&target), &mut signals).await?;
        let auth = self.auth_on(address, &lockhouse, &target).await?;
        lockhouse.limit_waiters(self.max_waiters)?;
        let maintaining = lockhouse.maintain(upkeep)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (store, url) = (target.public(), format!("{scheme}://{address}"));
        global.output.print(
            || json!({"url": url, "store": store}),
            || format!("lockhouse serves {store} on {url}"),
        )?;
        let hangups = Signals::listen([Signal::SIGHUP])?;
        tokio::spawn(reload_on_hangup(tls.clone(), audit.clone(), hangups));
        let (stop, mut stopped) = watch::channel(false);
        let mut told = stopped.clone();
        tokio::spawn(async move {
            let first = signals.end().await;
            service_manager::stopping();
            tracing::info!(signal = %first, "stopping when the calls under way are done");
            // This fails only if the server has ended already.
            let _ = stop.send(true);
            let second = signals.end().await;
            std::process::exit(Exit::of_signal(second).code());
        });
        let shutdown = async move {
            let _ = stopped.changed().await;
        };
        // Another server may go on with the upkeep while this one answers its last calls.
        let leaving = async {
            let _ = told.changed().await;
            maintaining.stop().await;
            Ok(())
        };
        let options = lockhouse_server::Options {
            auth,
            behind_proxy: self.behind_proxy,
            tls,
            audit,
            metrics_prefixes: self.metrics_prefixes,
            store_metrics: Some(store_metrics),
            waiters_per_token: self.max_waiters_per_token,
            calls: usize::try_from(self.max_calls).unwrap_or(usize::MAX),
        };
        service_manager::ready();
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

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// A client on the store at `target`, with metrics of its calls.
async fn measured(target: &Target) -> Result<(Lockhouse, StoreMetrics), Failure> {
    let (store, metrics) = StoreMetrics::around(target.open()?);
    let lockhouse = Lockhouse::with_store(store);
    lockhouse.migrate().await?;
    Ok((lockhouse, metrics))
}

/// Whether only programs on this machine can reach `address`.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Reads the certificates again on each SIGHUP, and opens the audit log again.
async fn reload_on_hangup(tls: Option<Tls>, audit: Option<AuditLog>, mut signals: Signals) {
    loop {
        signals.next().await;
        service_manager::reloading();
        match tls.as_ref().map(Tls::reload) {
            Some(Ok(_)) => tracing::info!("the certificate files were read again"),
            Some(Err(error)) => {
                tracing::error!(%error, "the certificate files cannot be used; the old ones stay");
            }
            None => {}
        }
        if let Some(Err(error)) = audit.as_ref().map(AuditLog::reopen) {
            tracing::error!(%error, "the audit log cannot be opened again; the old file stays");
        }
        service_manager::reloaded();
    }
}

impl Serve {
    pub(crate) fn logs_json(&self) -> bool {
        self.log_format == LogFormat::Json
    }

    /// The way of its traces, by a client of `runtime`.
    pub(crate) fn traces(&self, runtime: &Handle) -> Result<Option<Traces>, Failure> {
        let url = self.otlp_endpoint.as_deref();
        url.map(|url| Traces::to(url, runtime.clone())).transpose()
    }

    fn print_settings(mut self, global: &Global, target: &Target) -> Result<Exit, Failure> {
        for setting in &mut self.settings {
            if setting.key == "url" {
                setting.values = vec![target.public()];
            }
        }
        global.output.print(
            || json!({"settings": self.settings}),
            || as_file(&self.settings).trim_end().to_owned(),
        )?;
        Ok(Exit::OK)
    }

    fn audit(&self) -> Result<Option<AuditLog>, Failure> {
        let Some(path) = &self.audit_log else {
            return Ok(None);
        };
        if path.as_os_str() == "-" {
            return Ok(Some(AuditLog::stdout()));
        }
        let log = AuditLog::open(path);
        log.map(Some).map_err(|error| {
            let message = format!("--audit-log {}: {error}", path.display());
            Failure::with_exit(Exit::USAGE, message)
        })
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (certificate, key) = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) if self.tls_client_ca.is_none() => return Ok(None),
            _ => {
                let message = "TLS takes both --tls-cert and --tls-key";
                return Err(Failure::with_exit(Exit::USAGE, message));
            }
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

    /// Refuses settings that are unsafe whatever the store has.
    async fn refuse_unsafe_settings(&self) -> Result<(), Failure> {
        let addresses = tokio::net::lookup_host(&self.listen).await;
        let addresses = addresses.map_err(|error| {
            Failure::with_exit(Exit::USAGE, format!("--listen {}: {error}", self.listen))
        })?;
        for address in addresses {
            self.refuse_without_tls(address)?;
            self.refuse_without_tokens(address)?;
        }
        Ok(())
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

    fn refuse_without_tokens(&self, address: SocketAddr) -> Result<(), Failure> {
        if is_loopback(address) || self.insecure || self.auth != Auth::None {
            return Ok(());
        }
        Err(unsafe_on(
            address,
            "without tokens, every caller that reaches it may do everything; leave --auth none out",
        ))
    }

    /// Whether callers need a token. Off loopback they do, and the store must have one.
    async fn auth_on(
        &self,
        address: SocketAddr,
        lockhouse: &Lockhouse,
        target: &Target,
    ) -> Result<lockhouse_server::Auth, Failure> {
        let auth = match self.auth {
            Auth::Auto => lockhouse_server::Auth::Auto,
            Auth::Tokens => lockhouse_server::Auth::Tokens,
            Auth::None => lockhouse_server::Auth::None,
        };
        if is_loopback(address) || self.insecure {
            return Ok(auth);
        }
        self.refuse_without_tokens(address)?;
        if lockhouse.tokens_after(None, 1).await?.is_empty() {
            let url = target.public();
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
