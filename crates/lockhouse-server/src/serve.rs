//! Listening, and stopping without breaking off what is under way.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use lockhouse::Lockhouse;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::peer::Peer;
use crate::router::with_stopping;
use crate::stopping::Stopping;

/// How long a caller may take to send the head of a request, and may leave a connection idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest head of a request, and the most of a body that is read ahead.
const MOST_BUFFERED: usize = 64 * 1024;

/// A caller's machine that has gone without a word is noticed within a minute, and its place in a
/// queue given up.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TRIES: u32 = 3;

/// How long calls may go on once the server is to stop. Each ends within 10 s by itself, as waits
/// for room are then broken off.
const DRAIN: Duration = Duration::from_secs(12);

/// Serves `lockhouse` on `listener` until `shutdown` resolves.
///
/// It then takes no more connections, answers those who wait for room with 503, lets other calls
/// end, and returns; within 12 s, whatever callers do. Dropping the future breaks everything off
/// at once; every call is safe to repeat.
///
/// # Errors
/// When the listener is not one that connections can be taken from. One connection that fails
/// ends nothing but itself.
pub async fn serve(
    lockhouse: Lockhouse,
    listener: TcpListener,
    shutdown: impl Future,
) -> io::Result<()> {
    let (stop, stopping) = Stopping::new();
    let router = TowerToHyperService::new(with_stopping(lockhouse, stopping));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_BUFFERED);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    tracing::info!(address = %listener.local_addr()?, "serving");
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            Some(_) = connections.join_next() => continue,
            _ = &mut shutdown => break,
        };
        let (router, peer) = (router.clone(), Peer::of(&stream));
        let service = service_fn(move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            router.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection failed");
            }
        });
    }
    drop(listener);
    // Without waiters nobody listens.
    let _ = stop.send(true);
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            calls = connections.len(),
            "calls that did not end were broken off"
        );
    }
    Ok(())
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        let error = match listener.accept().await {
            Ok((stream, _)) => match set_up(&stream) {
                Ok(()) => return stream,
                Err(error) => error,
            },
            Err(error) if of_the_caller(&error) => error,
            Err(error) => {
                // Most likely too many open files: wait for some to be closed.
                tracing::error!(%error, "no connection can be taken, trying again");
                sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        tracing::debug!(%error, "a connection failed before it was used");
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

fn of_the_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
