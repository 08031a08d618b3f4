//! The span of a call, for traces and for the log.
//!
//! It is in the trace that the caller names in `traceparent`, if it names one. The spans of batches and statements are below
//! it. A server without traces, whose log leaves out spans, has no span at all.

use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use opentelemetry::global;
use opentelemetry_http::HeaderExtractor;
use tower_http::trace::{DefaultOnResponse, OnResponse as _};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The span of a call. Attributes are named as OpenTelemetry names them.
pub(crate) fn span(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str);
    let span = tracing::debug_span!(
        "call",
        otel.name = format!("{} {route}", request.method()),
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
    );
    if !span.is_disabled() {
        let headers = HeaderExtractor(request.headers());
        let caller = global::get_text_map_propagator(|propagator| propagator.extract(&headers));
        // Without traces the span is the log's alone.
        let _ = span.set_parent(caller);
    }
    span
}

/// Notes how the call was answered.
pub(crate) fn answered(response: &Response, took: Duration, span: &Span) {
    span.record("http.response.status_code", response.status().as_u16());
    DefaultOnResponse::default().on_response(response, took, span);
}
