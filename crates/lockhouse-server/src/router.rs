//! The routes, their handlers, and the layers around them.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Request};
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use lockhouse::{Code, Lockhouse};
use lockhouse_wire as wire;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::PropagateRequestIdLayer;
use tower_http::trace::TraceLayer;

use crate::access::{self, Access};
use crate::audit::{self, AuditLog};
use crate::failure::Failure;
use crate::health::Readiness;
use crate::metrics::{self, Metrics};
use crate::options::Options;
use crate::origin::{self, Site};
use crate::shares::Shares;
use crate::stopping::Stopping;
use crate::{
    console, health, held, openapi, owners, peer, requests, semaphores, templates, tokens, traced,
};

/// The header with the id of the call that an answer belongs to.
const CALL_ID: HeaderName = HeaderName::from_static(wire::CALL_ID);

/// The state of the handlers.
#[derive(Clone, Debug)]
pub(crate) struct App {
    lockhouse: Lockhouse,
    stopping: Stopping,
    metrics: Arc<Metrics>,
    access: Arc<Access>,
    readiness: Readiness,
}

/// The whole HTTP service on `lockhouse`, for use without [`serve`](crate::serve()), or within
/// another service.
///
/// It accepts any `Host`, since it does not know the names under which it is served. On a loopback
/// address that lets in pages whose names resolve to it (DNS rebinding), so check `Host` in front
/// of it. Callers need a token as soon as the store has one.
pub fn router(lockhouse: Lockhouse) -> Router {
    let (_, never) = Stopping::new();
    let metrics = Metrics::new(Vec::new(), None);
    let Options {
        auth,
        waiters_per_token,
        calls,
        ..
    } = Options::default();
    let shares = Shares::new(waiters_per_token, calls, metrics.shares());
    let access = Access::new(lockhouse.clone(), shares, auth, false);
    with_stopping(lockhouse, never, Site::ANY, metrics, access, None)
}

pub(crate) fn with_stopping(
    lockhouse: Lockhouse,
    stopping: Stopping,
    site: Site,
    metrics: Metrics,
    access: Access,
    audit: Option<AuditLog>,
) -> Router {
    let app = App {
        readiness: Readiness::new(lockhouse.clone()),
        lockhouse,
        stopping,
        metrics: Arc::new(metrics),
        access: Arc::new(access),
    };
    let mut router = Router::new();
    for (path, route) in routes() {
        // The path as written here, since the router may be nested under another path.
        let checked = (Arc::clone(&app.access), path);
        let check = middleware::from_fn_with_state(checked, access::check);
        router = router.route(path, route.layer(check));
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn_with_state(site, origin::check))
        .layer(middleware::from_fn(marked))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(audit, audit::write))
        .layer(middleware::from_fn_with_state(
            site.is_behind_proxy,
            peer::named_by_proxy,
        ))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::count))
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(traced::span)
                .on_response(traced::answered)
                .on_failure(()),
        )
        .layer(PropagateRequestIdLayer::new(CALL_ID))
        .with_state(app)
}

fn routes() -> [(&'static str, MethodRouter<App>); 19] {
    [
        ("/v1/semaphores", get(semaphores::list)),
        (
            "/v1/semaphores/{name}",
            put(semaphores::put)
                .get(semaphores::get)
                .delete(semaphores::delete),
        ),
        ("/v1/semaphores/{name}/holders", get(semaphores::holders)),
        ("/v1/semaphores/{name}/history", get(semaphores::history)),
        ("/v1/semaphores/{name}/waiting", get(semaphores::waiting)),
        ("/v1/requests", get(held::list)),
        (
            "/v1/requests/{external_id}",
            put(requests::put)
                .get(requests::get)
                .delete(requests::delete),
        ),
        ("/v1/requests/{external_id}/renew", post(requests::renew)),
        (
            "/v1/owners/{owner}",
            put(owners::put).delete(owners::delete),
        ),
        ("/v1/templates", get(templates::list)),
        (
            "/v1/templates/{pattern}",
            put(templates::put).delete(templates::delete),
        ),
        ("/v1/tokens", post(tokens::post).get(tokens::list)),
        ("/v1/tokens/{name}", delete(tokens::delete)),
        (
            "/v1/session",
            post(access::login::post).delete(access::login::delete),
        ),
        ("/healthz", get(health::healthz)),
        ("/readyz", get(health::readyz)),
        ("/metrics", get(metrics::get)),
        ("/openapi.json", get(openapi::get)),
        ("/", get(console::get)),
    ]
}

async fn no_such_path(uri: Uri) -> Failure {
    let detail = format!("{} does not exist; see /openapi.json", uri.path());
    Failure::malformed("path", detail).under(StatusCode::NOT_FOUND)
}

async fn no_such_method(method: Method, uri: Uri) -> Failure {
    let detail = format!(
        "{} does not take {method}; see the Allow header",
        uri.path()
    );
    Failure::malformed("method", detail).under(StatusCode::METHOD_NOT_ALLOWED)
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text, "a handler panicked");
    Failure::new(
        Code::Internal,
        "internal error; the log of the server has more",
    )
    .into_response()
}

/// Marks every answer as not cacheable, and its content type as final.
async fn marked(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl FromRef<App> for Lockhouse {
    fn from_ref(app: &App) -> Self {
        app.lockhouse.clone()
    }
}

impl FromRef<App> for Arc<Access> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.access)
    }
}

impl FromRef<App> for Readiness {
    fn from_ref(app: &App) -> Self {
        app.readiness.clone()
    }
}

impl FromRef<App> for Stopping {
    fn from_ref(app: &App) -> Self {
        app.stopping.clone()
    }
}

impl FromRef<App> for Arc<Metrics> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    use axum::body::Body;
    use axum::http::header::ALLOW;
    use tower::ServiceExt;

    type Methods = BTreeMap<String, BTreeSet<String>>;

    /// Found by calling each route with a method that none accepts.
    async fn methods_of_the_routes() -> Methods {
        let router = router(Lockhouse::connect("memory:").await.unwrap());
        let mut methods = Methods::new();
        for (path, _) in routes() {
            let request = Request::builder()
                .method("BREW")
                .uri(path.replace(['{', '}'], ""))
                .body(Body::empty())
                .unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 405);
            let allow = response.headers()[ALLOW].to_str().unwrap();
            let allow = allow.split(',').map(str::to_lowercase);
            methods.insert(
                path.to_owned(),
                allow.filter(|method| method != "head").collect(),
            );
        }
        methods
    }

    #[tokio::test]
    async fn each_route_and_method_has_a_row_in_the_table_of_rights() {
        for (path, methods) in methods_of_the_routes().await {
            for method in methods {
                let method = method.to_uppercase().parse().unwrap();
                assert!(access::needs(&method, &path).is_some(), "{method} {path}");
            }
        }
    }

    fn methods_of_the_contract() -> Methods {
        let contract: serde_json::Value = serde_json::from_str(crate::OPENAPI).unwrap();
        let paths = contract["paths"].as_object().unwrap();
        let methods = paths.iter().map(|(path, item)| {
            let methods = item
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "parameters");
            (path.clone(), methods.cloned().collect())
        });
        methods.collect()
    }

    #[tokio::test]
    async fn the_contract_has_the_routes_and_their_methods() {
        assert_eq!(methods_of_the_routes().await, methods_of_the_contract());
    }
}
