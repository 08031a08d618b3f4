//! Listens, and shuts down gracefully.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::Lockhouse;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::access::Access;
use crate::connection::{self, Offer};
use crate::connections::Connections;
use crate::descriptors::Bounds;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origin::{Hosts, Site};
use crate::router::with_stopping;
use crate::shares::Shares;
use crate::socket;
use crate::stopping::Stopping;
use crate::tls::Tls;

/// How long calls may go on once the server stops. Each ends within 10 s by itself, since waits for
/// room are cut short then.
const DRAIN: Duration = Duration::from_secs(12);

/// The pause when no connection can be accepted, most likely for lack of descriptors.
const BACKOFF: Duration = Duration::from_secs(1);

/// Serves `lockhouse` on `listener` until `shutdown` resolves.
///
/// On a loopback address it serves local programs only, and its own page: a `Host` that is not a
/// loopback name, and any page of another site, are refused.
///
/// It then accepts no more connections, answers waiting calls with 503, lets other calls end, and
/// returns within 12 s, whatever callers do. Dropping the future aborts everything at once; every
/// call is safe to repeat.
///
/// The process's limit of open files bounds how many connections there are, and how many of them
/// may be taken by calls that wait; see [`raise_open_files_limit`](crate::raise_open_files_limit).
///
/// # Errors
/// The [`io::Error`] of the system, before any connection is accepted, if it does not tell the process's limit of open
/// files or the address of `listener`. Later errors end nothing: a connection that fails ends only itself, and
/// connections that cannot be accepted are tried again.
pub async fn serve(
    lockhouse: Lockhouse,
    listener: TcpListener,
    shutdown: impl Future,
) -> io::Result<()> {
    serve_with(lockhouse, listener, Options::default(), shutdown).await
}

/// [`serve`] by `options`.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(
    lockhouse: Lockhouse,
    listener: TcpListener,
    options: Options,
    shutdown: impl Future,
) -> io::Result<()> {
    let bounds = Bounds::of_the_process()?;
    let (stop, stopping) = Stopping::new();
    let metrics = Metrics::new(options.metrics_prefixes, options.store_metrics);
    let connections = Connections::new(bounds, metrics.connections());
    let tls = options.tls;
    let site = Site {
        hosts: Hosts::of(listener.local_addr()?),
        has_tls: tls.is_some(),
        is_behind_proxy: options.behind_proxy,
    };
    let access = Access::new(
        lockhouse.clone(),
        Shares::new(options.waiters_per_token, options.calls, metrics.shares()),
        options.auth,
        options.behind_proxy || tls.is_some(),
    );
    let router = with_stopping(
        lockhouse.clone(),
        stopping.clone(),
        site,
        metrics,
        access,
        options.audit,
    );
    tracing::info!(address = %listener.local_addr()?, connections = bounds.connections, "serving");
    let offer = Offer {
        router,
        tls: tls.clone(),
        stopping,
    };
    let mut served = JoinSet::new();
    tokio::select! {
        never = take(|| listener.accept(), &connections, &mut served, &offer) => match never {},
        never = watch(tls.as_ref()) => never,
        _ = shutdown => {}
    }
    drop(listener);
    lockhouse.hand_over_waiters().await;
    // Without waiters there is no receiver.
    let _ = stop.send(true);
    let drained = timeout(DRAIN, async { while served.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::warn!(
            connections = served.len(),
            "calls that did not end were cut off"
        );
    }
    Ok(())
}

/// Accepts connections by `next` and serves each in a separate task.
async fn take<N, F>(
    next: N,
    connections: &Arc<Connections>,
    served: &mut JoinSet<()>,
    offer: &Offer,
) -> Infallible
where
    N: Fn() -> F,
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    let mut accepting = pin!(accept(&next, connections));
    loop {
        // Keep the same accept future while connections end, so that its backoff goes on.
        let stream = tokio::select! {
            stream = accepting.as_mut() => stream,
            Some(_) = served.join_next() => continue,
        };
        let connection = connections.open(stream);
        served.spawn(connection::serve(connection, offer.clone()));
        accepting.set(accept(&next, connections));
    }
}

/// Reads the certificates again when they change.
async fn watch(tls: Option<&Tls>) -> ! {
    match tls {
        Some(tls) => tls.watch().await,
        None => std::future::pending().await,
    }
}

async fn accept<N, F>(next: &N, connections: &Connections) -> TcpStream
where
    N: Fn() -> F,
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    loop {
        connections.room().await;
        let error = match next().await {
            Ok((stream, _)) => match socket::set_up(&stream) {
                Ok(()) => return stream,
                Err(error) => error,
            },
            Err(error) if of_the_caller(&error) => error,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections, retrying");
                sleep(BACKOFF).await;
                continue;
            }
        };
        tracing::debug!(%error, "a connection failed before it was used");
    }
}

fn of_the_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use axum::Router;

    use super::*;

    /// As long as there are no descriptors, connections that end free some, one at a time.
    #[tokio::test(start_paused = true)]
    async fn a_lack_of_descriptors_is_retried_once_a_second_however_many_connections_end() {
        let bounds = Bounds::of_the_process().unwrap();
        let connections = Connections::new(bounds, Metrics::new(Vec::new(), None).connections());
        let (_stop, stopping) = Stopping::new();
        let offer = Offer {
            router: Router::new(),
            tls: None,
            stopping,
        };
        let mut served = JoinSet::new();
        for i in 0..40 {
            served.spawn(sleep(Duration::from_millis(100 * i)));
        }
        let tries = Cell::new(0);
        let next = || {
            tries.set(tries.get() + 1);
            let too_many_open_files = 24;
            let error = io::Error::from_raw_os_error(too_many_open_files);
            std::future::ready(Err(error))
        };
        let taking = take(next, &connections, &mut served, &offer);
        let taken = timeout(Duration::from_millis(3_900), taking).await;
        assert!(taken.is_err());
        assert_eq!(tries.get(), 4);
        assert!(served.len() < 10, "{} have not ended", served.len());
    }
}
