//! The gate as a tower layer, for a resource that is written to over HTTP.
//!
//! Every request must carry the header `lockhouse-fence: RESOURCE;SLOT;FENCE`, such as `lockhouse-fence: reports;0;42`. Put
//! the layer on the routes that write.
//!
//! | the request | is answered |
//! |---|---|
//! | passes | what the service answers |
//! | shows a stale fence | 412 Precondition Failed: the writer has lost its hold, and must stop |
//! | has no such header | 428 Precondition Required |
//! | has a malformed or a second one, or one of another resource | 400 Bad Request |
//! | cannot be checked, since the gate failed | 503 Service Unavailable |
//!
//! Answers of the layer itself are problem documents of RFC 9457, with `code` `stale_fence`,
//! `fence_required`, `invalid_fence` or `gate_unavailable`.
//!
//! The [`Gate`] keeps other writers out until the service has answered, so requests for one slot
//! are served one after another. A request that is aborted lets the next one pass. If the gate
//! fails when the service has answered, the answer is 503, and the write may have been done.
//!
//! A service that never answers keeps its slot for ever. Bound its time by a layer below this one, such as
//! `tower_http::timeout::TimeoutLayer`.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use lockhouse_gate::MemoryGate;
//! use lockhouse_gate::http::FenceLayer;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new()
//!     .layer(FenceLayer::new("reports", MemoryGate::default()))
//!     .service(service_fn(async |_: Request<String>| {
//!         Ok::<_, std::convert::Infallible>(Response::new("written".to_owned()))
//!     }));
//! for (fence, status) in [("reports;0;7", 200), ("reports;0;8", 200), ("reports;0;7", 412)] {
//!     let request = Request::put("/report").header("lockhouse-fence", fence);
//!     let answer = service.clone().oneshot(request.body(String::new())?).await?;
//!     assert_eq!(answer.status(), status);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! It also works as a layer of axum:
//!
//! ```
//! use axum::{Router, routing::put};
//! use lockhouse_gate::{MemoryGate, http::FenceLayer};
//!
//! let routes = Router::new()
//!     .route("/report", put(write_report))
//!     .layer(FenceLayer::new("report", MemoryGate::default()));
//! # async fn write_report(body: String) -> String {
//! #     body
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn check(routes: Router) {
//! # use tower::ServiceExt as _;
//! # for (fence, status) in [("report;0;8", 200), ("report;0;7", 412)] {
//! #     let request = http::Request::put("/report").header("lockhouse-fence", fence);
//! #     let request = request.body(axum::body::Body::empty()).unwrap();
//! #     let answer = routes.clone().oneshot(request).await.unwrap();
//! #     assert_eq!(answer.status(), status);
//! # }
//! # }
//! # check(routes)
//! ```

use std::future::Future;
use std::pin::Pin;
use std::str;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::{Fence, Gate, Refused};

/// The header that a writer's fence is in.
pub const HEADER: HeaderName = HeaderName::from_static("lockhouse-fence");

/// Lets requests pass by their fences; see the [module](self).
#[derive(Debug)]
pub struct FenceLayer<G> {
    resource: Arc<str>,
    gate: Arc<G>,
}

impl<G: Gate> FenceLayer<G> {
    /// A layer for writes to `resource`, by the fences that `gate` keeps.
    pub fn new(resource: impl Into<Arc<str>>, gate: G) -> Self {
        Self {
            resource: resource.into(),
            gate: Arc::new(gate),
        }
    }
}

impl<G> Clone for FenceLayer<G> {
    fn clone(&self) -> Self {
        Self {
            resource: Arc::clone(&self.resource),
            gate: Arc::clone(&self.gate),
        }
    }
}

impl<S, G> Layer<S> for FenceLayer<G> {
    type Service = FenceService<S, G>;

    fn layer(&self, inner: S) -> Self::Service {
        FenceService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service behind a [`FenceLayer`].
#[derive(Debug)]
pub struct FenceService<S, G> {
    inner: S,
    layer: FenceLayer<G>,
}

impl<S: Clone, G> Clone for FenceService<S, G> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S, G, B, A> Service<Request<B>> for FenceService<S, G>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    G: Gate,
    B: Send + 'static,
    A: From<String> + Send,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Use the service that is ready; a clone need not be.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let FenceLayer { resource, gate } = self.layer.clone();
        Box::pin(async move {
            let shown = match shown(&request, &resource) {
                Ok(shown) => shown,
                Err(problem) => return Ok(problem.into()),
            };
            let pass = match gate.pass(&shown).await {
                Ok(pass) => pass,
                Err(Refused::Stale) => return Ok(STALE.into()),
                Err(Refused::Failed(_)) => return Ok(UNAVAILABLE.into()),
            };
            let answer = inner.call(request).await;
            match gate.end(pass).await {
                Ok(()) => answer,
                Err(_) => Ok(UNCONFIRMED.into()),
            }
        })
    }
}

/// The fence in `request` for `resource`.
fn shown<B>(request: &Request<B>, resource: &str) -> Result<Fence, Problem> {
    let mut values = request.headers().get_all(HEADER).into_iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return Err(REQUIRED),
        _ => return Err(MALFORMED),
    };
    let text = str::from_utf8(value.as_bytes());
    let fence: Option<Fence> = text.ok().and_then(|text| text.parse().ok());
    match fence {
        Some(fence) if fence.resource == resource => Ok(fence),
        Some(_) => Err(ANOTHER),
        None => Err(MALFORMED),
    }
}

/// An answer of the layer itself. The texts have no character that JSON escapes.
struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: &'static str,
}

const STALE: Problem = Problem {
    status: StatusCode::PRECONDITION_FAILED,
    code: "stale_fence",
    detail: "a later holder has passed, so the hold is lost; stop the work",
};

const REQUIRED: Problem = Problem {
    status: StatusCode::PRECONDITION_REQUIRED,
    code: "fence_required",
    detail: "the request has no fence; send lockhouse-fence: RESOURCE;SLOT;FENCE",
};

const MALFORMED: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    code: "invalid_fence",
    detail: "the fence is malformed; send one lockhouse-fence: RESOURCE;SLOT;FENCE",
};

const ANOTHER: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    code: "invalid_fence",
    detail: "the fence is for another resource; send one of the semaphore that guards this one",
};

const UNAVAILABLE: Problem = Problem {
    status: StatusCode::SERVICE_UNAVAILABLE,
    code: "gate_unavailable",
    detail: "the fence could not be checked, and nothing was written; try again",
};

const UNCONFIRMED: Problem = Problem {
    status: StatusCode::SERVICE_UNAVAILABLE,
    code: "gate_unavailable",
    detail: "the gate failed after the write, which may have been done",
};

impl<A: From<String>> From<Problem> for Response<A> {
    fn from(problem: Problem) -> Self {
        let Problem {
            status,
            code,
            detail,
        } = problem;
        let title = status.canonical_reason().unwrap_or_default();
        let body = format!(
            r#"{{"title":"{title}","status":{},"detail":"{detail}","code":"{code}"}}"#,
            status.as_u16()
        );
        let mut response = Response::new(body.into());
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
