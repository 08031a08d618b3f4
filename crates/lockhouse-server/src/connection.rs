//! One connection: the calls on it, and how it ends.

use std::convert::Infallible;
use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use crate::answer;
use crate::connections::Connection;
use crate::peer::Peer;
use crate::socket::{self, Socket};
use crate::stopping::Stopping;
use crate::tls::{Certificate, Tls};

/// How long a connection may be without a call: the timeout for the head of a request, for an idle
/// connection, and for reading the end of an answer.
const QUIET: Duration = Duration::from_secs(60);

/// The time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection may be without a call when the server stops.
const LAST_QUIET: Duration = Duration::from_secs(1);

/// The longest head of a request, and the most of a body that is read ahead.
const MOST_BUFFERED: usize = 64 * 1024;

/// How many calls one connection of HTTP/2 may have at once, and how long their heads may be.
const MOST_STREAMS: u32 = 256;
const MOST_HEADERS: u32 = 16 * 1024;

/// The connection of a call. `None` if the call came by other means than [`serve`](crate::serve()).
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    connection: Option<Arc<Connection>>,
    /// Whether to watch for its end while a call is under way.
    is_watched: bool,
}

/// A place among the calls that may wait.
#[derive(Debug)]
pub(crate) struct MayWait {
    _place: Option<OwnedSemaphorePermit>,
}

/// The shared parts that serve all connections.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) router: Router,
    pub(crate) tls: Option<Tls>,
    pub(crate) stopping: Stopping,
}

/// Answers the calls that come by `connection` until it ends.
pub(crate) async fn serve(connection: Arc<Connection>, offer: Offer) {
    let Offer {
        router,
        tls,
        stopping,
    } = offer;
    let socket = Socket::new(Arc::clone(&connection.stream));
    let Some(tls) = tls else {
        return serve_on(socket, &connection, None, router, stopping).await;
    };
    let encrypted = tokio::select! {
        encrypted = timeout(HANDSHAKE, tls.accept(socket)) => encrypted,
        () = over(&connection) => return,
        () = stopping.begun() => return,
    };
    match encrypted {
        Ok(Ok((stream, certificate))) => {
            let serving = serve_on(stream, &connection, certificate, router, stopping);
            // Boxed, since the future is large, and many connections have no TLS.
            Box::pin(serving).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Resolves when `connection` has failed, or must end.
async fn over(connection: &Connection) {
    tokio::select! {
        () = socket::broken(&connection.stream) => {}
        () = connection.to_end() => {}
    }
}

/// Resolves when the caller's certificate has expired, if it has shown one.
async fn expired(certificate: Option<&Certificate>) {
    match certificate {
        Some(certificate) => certificate.expired().await,
        None => future::pending().await,
    }
}

/// Answers the calls that come by `stream`.
async fn serve_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: &Arc<Connection>,
    certificate: Option<Certificate>,
    router: Router,
    stopping: Stopping,
) {
    let router = TowerToHyperService::new(router);
    let peer = Peer::of(&connection.stream);
    let service = service_fn(|mut request: Request<Incoming>| {
        let call = connection.begin_call();
        let connection = Arc::clone(connection);
        let version = request.version();
        request.extensions_mut().insert(Caller {
            connection: Some(Arc::clone(&connection)),
            // By HTTP/2, the HTTP library reads on, and drops the calls of streams that end.
            is_watched: version != Version::HTTP_2,
        });
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.names().clone());
        }
        let answering = router.call(request);
        async move {
            let answer = answering.await?;
            Ok::<_, Infallible>(answer::answer(answer, call, &connection, version))
        }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    // This module watches for the end of the caller's side; see `socket`.
    http.http1()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(MOST_BUFFERED);
    http.http2()
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(MOST_HEADERS)
        .max_send_buf_size(MOST_BUFFERED);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut over = pin!(async {
        tokio::select! {
            () = over(connection) => {}
            () = expired(certificate.as_ref()) => tracing::debug!("a caller's certificate has expired"),
        }
    });
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = over.as_mut() => return,
        () = quiet(connection.calls(), QUIET) => return,
        () = stopping.begun() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served => ended,
                () = over => return,
                () = quiet(connection.calls(), LAST_QUIET) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Resolves when no call has been under way for the time `so_long`.
async fn quiet(mut calls: watch::Receiver<usize>, so_long: Duration) {
    loop {
        // The connection, which still exists, holds the sender.
        let _ = calls.wait_for(|calls| *calls == 0).await;
        let call = calls.wait_for(|calls| *calls > 0);
        if timeout(so_long, call).await.is_err() {
            return;
        }
    }
}

impl Caller {
    /// A place among the calls that may wait, unless all are taken.
    pub(crate) fn may_wait(&self) -> Option<MayWait> {
        let place = match &self.connection {
            Some(connection) => Some(connection.may_wait()?),
            None => None,
        };
        Some(MayWait { _place: place })
    }

    /// Records that its call was authorized.
    pub(crate) fn let_in(&self) {
        if let Some(connection) = &self.connection {
            connection.let_in();
        }
    }

    /// Ends the connection when the caller hangs up, and with it the call that awaits this.
    pub(crate) async fn end_when_it_hangs_up(&self) {
        if let Some(connection) = self.connection.as_ref().filter(|_| self.is_watched) {
            socket::hung_up(&connection.stream).await;
            connection.end();
        }
        future::pending().await
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let caller = parts.extensions.get().cloned();
        Ok(caller.unwrap_or_default())
    }
}
