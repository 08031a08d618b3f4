//! One connection: the calls on it, and how it ends.

use std::convert::Infallible;
use std::future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::Request;
use axum::http::request::Parts;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use crate::connections::{Call, Connection};
use crate::socket::{self, Socket};
use crate::stopping::Stopping;

/// How long a connection may be without a call: the time for the head of a request, for an idle
/// connection, and for the last of an answer to be read.
const QUIET: Duration = Duration::from_secs(60);

/// The same when the server stops.
const LAST_QUIET: Duration = Duration::from_secs(1);

/// The longest head of a request, and the most of a body that is read ahead.
const MOST_BUFFERED: usize = 64 * 1024;

/// The connection that a call came by; none if it came by other means than
/// [`serve`](crate::serve()).
#[derive(Clone, Debug)]
pub(crate) struct Caller(Option<Arc<Connection>>);

/// A place among the calls that may wait.
#[derive(Debug)]
pub(crate) struct MayWait {
    _place: Option<OwnedSemaphorePermit>,
}

/// The body of an answer, whose call is under way until the HTTP library has all of it.
struct Answer {
    body: Body,
    _call: Call,
}

/// Answers the calls that come by `connection` until it ends.
pub(crate) async fn serve(connection: Arc<Connection>, router: Router, stopping: Stopping) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let call = connection.begin_call();
        let caller = Caller(Some(Arc::clone(&connection)));
        request.extensions_mut().insert(caller);
        let answering = router.call(request);
        async move {
            let answer = answering.await?;
            Ok::<_, Infallible>(answer.map(|body| Answer { body, _call: call }))
        }
    });
    let mut http = http1::Builder::new();
    // The end of the caller's side is watched here. See `socket`.
    http.half_close(true)
        .header_read_timeout(None)
        .max_buf_size(MOST_BUFFERED);
    let socket = Socket::new(Arc::clone(&connection.stream));
    let mut served = pin!(http.serve_connection(TokioIo::new(socket), service));
    let mut over = pin!(async {
        tokio::select! {
            () = socket::broken(&connection.stream) => {}
            () = connection.to_end() => {}
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

/// Resolves when there was no call under way for so long.
async fn quiet(mut calls: watch::Receiver<usize>, so_long: Duration) {
    loop {
        // The sender is with the connection, which is still there.
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
        let place = match &self.0 {
            Some(connection) => Some(connection.may_wait()?),
            None => None,
        };
        Some(MayWait { _place: place })
    }

    /// Ends the connection when the caller hangs up, and with it the call that awaits this.
    pub(crate) async fn end_when_it_hangs_up(&self) {
        if let Some(connection) = &self.0 {
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
        Ok(caller.unwrap_or(Self(None)))
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
