//! `/metrics`: how many calls there were, how they were answered, how long that took, and whether the
//! upkeep fails.
//!
//! In the OpenMetrics text format, which is what Prometheus asks for. The route is the pattern, not
//! the path, so that names don't become labels.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::{Code, Lockhouse, UpkeepState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::connections::Counts;
use crate::failure::Failure;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds. The last ones are for those who wait for room.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0, 60.0,
];

/// The status of a call whose caller hung up, as nginx has it.
const HUNG_UP: u16 = 499;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Answered, Counter>,
    durations: Family<Route, Histogram>,
    upkeep_failing: Gauge,
    connections: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: u16,
}

/// A call under way. It is counted when this is dropped, so also if its caller hangs up.
struct Call {
    metrics: Arc<Metrics>,
    route: Route,
    begun: Instant,
    status: u16,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let calls = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        let upkeep_failing = Gauge::default();
        let mut registry = Registry::with_prefix("lockhouse");
        registry.register(
            "upkeep_failing",
            "1 while this server should do the upkeep and cannot, else 0; /readyz says why",
            upkeep_failing.clone(),
        );
        let http = registry.sub_registry_with_prefix("http");
        http.register("requests", "Calls by how they were answered", calls.clone());
        http.register_with_unit(
            "request_duration",
            "How long calls took, including their waits for room",
            Unit::Seconds,
            durations.clone(),
        );
        let connections = Counts::default();
        http.register("connections", "Open connections", connections.open.clone());
        http.register(
            "connections_evicted",
            "Idle connections that were closed to make room for others",
            connections.evicted.clone(),
        );
        http.register(
            "waits_refused",
            "Waiting calls that were refused, since too many connections had waiting calls",
            connections.waits_refused.clone(),
        );
        Self {
            registry,
            calls,
            durations,
            upkeep_failing,
            connections,
        }
    }

    /// What connections count.
    pub(crate) fn connections(&self) -> Counts {
        self.connections.clone()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Route { method, route } = self.route.clone();
        let answered = Answered {
            method,
            route,
            status: self.status,
        };
        self.metrics.calls.get_or_create(&answered).inc();
        let durations = self.metrics.durations.get_or_create(&self.route);
        durations.observe(self.begun.elapsed().as_secs_f64());
    }
}

pub(crate) async fn count(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    let route = Route {
        method: known(request.method()),
        route: matched.map_or("none", MatchedPath::as_str).to_owned(),
    };
    let mut call = Call {
        metrics,
        route,
        begun: Instant::now(),
        status: HUNG_UP,
    };
    let response = next.run(request).await;
    call.status = response.status().as_u16();
    response
}

pub(crate) async fn get(
    State(lockhouse): State<Lockhouse>,
    State(metrics): State<Arc<Metrics>>,
) -> Result<Response, Failure> {
    let fails = matches!(lockhouse.upkeep_state(), UpkeepState::Failing(_));
    metrics.upkeep_failing.set(i64::from(fails));
    let mut text = String::new();
    encode(&mut text, &metrics.registry)
        .map_err(|error| Failure::new(Code::Internal, format!("no metrics: {error}")))?;
    Ok(([(CONTENT_TYPE, OPENMETRICS)], text).into_response())
}

/// A caller may make up methods; labels may not.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    let method = known.into_iter().find(|known| *known == method.as_str());
    method.unwrap_or("other")
}
