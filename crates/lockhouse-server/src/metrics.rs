//! `/metrics`: how many calls there were, how they were answered, how long that took, what was granted and refused, and whether
//! the upkeep fails. [`gauges`](crate::gauges) has the semaphores, [`store_metrics`](crate::store_metrics) the store.
//!
//! The answer is in the OpenMetrics text format if the caller asks for it, as Prometheus does, or
//! else in [Prometheus's](crate::text_format). The route is the pattern, not the path, so that
//! names don't become labels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::{Code, Lockhouse, UpkeepState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::connections::ConnectionCounts;
use crate::failure::Failure;
use crate::shares::ShareCounts;
use crate::store_metrics::StoreMetrics;
use crate::{gauges, text_format};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds. The last buckets are for calls that wait for room.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0, 60.0,
];

/// Seconds that permits are held and waited for: up to a day.
const LONG: [f64; 14] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0,
    86_400.0,
];

/// The call that acquires.
const ACQUIRE: (&str, &str, u16) = ("PUT", "/v1/requests/{external_id}", 201);

/// The status of a call whose caller hung up, as in nginx.
const HUNG_UP: u16 = 499;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Answered, Counter>,
    durations: Family<Route, Histogram>,
    refusals: Family<Refused, Counter>,
    waits: Histogram,
    holds: Histogram,
    upkeep_failing: Gauge,
    connections: ConnectionCounts,
    shares: ShareCounts,
    /// The prefixes of the semaphores that have gauges.
    prefixes: Arc<[String]>,
    store: Option<StoreMetrics>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: &'static str,
}

/// How long a request was held that a call has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held(pub(crate) Duration);

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

/// A call under way. It is counted when this is dropped, also if its caller hangs up.
struct CountedCall {
    metrics: Arc<Metrics>,
    route: Route,
    begun: Instant,
    status: u16,
    refused: Option<Code>,
    held: Option<Duration>,
}

impl Metrics {
    pub(crate) fn new(prefixes: Vec<String>, store: Option<StoreMetrics>) -> Self {
        let calls = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        let upkeep_failing = Gauge::default();
        let mut registry = Registry::with_prefix("lockhouse");
        registry.register(
            "upkeep_failing",
            "1 while this server should do the upkeep and cannot, else 0; /readyz says why",
            upkeep_failing.clone(),
        );
        let refusals = Family::default();
        registry.register(
            "refusals",
            "Calls that were refused, by the code of the problem",
            refusals.clone(),
        );
        let waits = Histogram::new(LONG);
        registry.register_with_unit(
            "grant_wait",
            "How long calls that were granted took until then",
            Unit::Seconds,
            waits.clone(),
        );
        let holds = Histogram::new(LONG);
        registry.register_with_unit(
            "hold",
            "How long requests were held that calls released or ended",
            Unit::Seconds,
            holds.clone(),
        );
        let http = registry.sub_registry_with_prefix("http");
        http.register("requests", "Calls by how they were answered", calls.clone());
        http.register_with_unit(
            "request_duration",
            "How long calls took, including their waits for room",
            Unit::Seconds,
            durations.clone(),
        );
        let connections = ConnectionCounts::default();
        http.register("connections", "Open connections", connections.open.clone());
        http.register(
            "connections_evicted",
            "Idle connections that were closed to make room for others",
            connections.evicted.clone(),
        );
        http.register(
            "waits_refused",
            "Waiting calls that were refused, since too many connections, or too many calls of their token, waited",
            connections.waits_refused.clone(),
        );
        let shares = ShareCounts {
            queued: Gauge::default(),
            waits_refused: connections.waits_refused.clone(),
        };
        http.register(
            "calls_queued",
            "Calls that queue, as too many calls are under way of their token, or of all",
            shares.queued.clone(),
        );
        Self {
            registry,
            calls,
            durations,
            refusals,
            waits,
            holds,
            upkeep_failing,
            connections,
            shares,
            prefixes: prefixes.into(),
            store,
        }
    }

    /// The counts of the connections.
    pub(crate) fn connections(&self) -> ConnectionCounts {
        self.connections.clone()
    }

    /// The counts of the tokens' shares.
    pub(crate) fn shares(&self) -> ShareCounts {
        self.shares.clone()
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        let Route { method, route } = self.route.clone();
        let answered = Answered {
            method,
            route,
            status: self.status,
        };
        self.metrics.calls.get_or_create(&answered).inc();
        let took = self.begun.elapsed().as_secs_f64();
        let durations = self.metrics.durations.get_or_create(&self.route);
        durations.observe(took);
        if (self.route.method, &*self.route.route, self.status) == ACQUIRE {
            self.metrics.waits.observe(took);
        }
        if let Some(code) = self.refused {
            let code = code.as_str();
            self.metrics.refusals.get_or_create(&Refused { code }).inc();
        }
        if let Some(held) = self.held {
            self.metrics.holds.observe(held.as_secs_f64());
        }
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
    let mut call = CountedCall {
        metrics,
        route,
        begun: Instant::now(),
        status: HUNG_UP,
        refused: None,
        held: None,
    };
    let response = next.run(request).await;
    call.status = response.status().as_u16();
    call.refused = response.extensions().get().copied();
    call.held = response.extensions().get().map(|Held(held)| *held);
    response
}

pub(crate) async fn get(
    State(lockhouse): State<Lockhouse>,
    State(metrics): State<Arc<Metrics>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fails = matches!(lockhouse.upkeep_state(), UpkeepState::Failing(_));
    metrics.upkeep_failing.set(i64::from(fails));
    let mut text = String::new();
    encode_registry(&mut text, &metrics.registry)
        .and(
            metrics
                .store
                .iter()
                .try_for_each(|store| store.encode(&mut text, &lockhouse.store_retries())),
        )
        .and(gauges::encode(&mut text, &lockhouse, &metrics.prefixes).await)
        .and_then(|()| encode_eof(&mut text))
        .map_err(|error| Failure::new(Code::Internal, format!("no metrics: {error}")))?;
    let (format, text) = match takes_openmetrics(&headers) {
        true => (OPENMETRICS, text),
        false => (text_format::CONTENT_TYPE, text_format::of(&text)),
    };
    Ok(([(CONTENT_TYPE, format), (VARY, "accept")], text).into_response())
}

fn takes_openmetrics(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter();
    accepted.any(|accept| {
        let accept = accept.to_str().unwrap_or_default();
        accept.contains("application/openmetrics-text")
    })
}

/// A caller may send any method, so unknown ones share one label.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    let method = known.into_iter().find(|known| *known == method.as_str());
    method.unwrap_or("other")
}
