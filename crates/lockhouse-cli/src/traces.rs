//! Traces of a server's calls, for a collector that takes OTLP over HTTP (ADR 33).
//!
//! The OpenTelemetry library sends spans from a separate thread, by a client on the server's runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;

/// How long the collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends spans to a collector.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Sends to the collector at `url`, by a client on `runtime`.
    pub(crate) fn to(url: &str, runtime: Handle) -> Result<Self, Failure> {
        let client = HyperClient::with_default_connector(PATIENCE, None);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", url.trim_end_matches('/')))
            .with_timeout(PATIENCE)
            .with_http_client(Client {
                client: Arc::new(client),
                runtime,
            })
            .build()
            .map_err(|error| Failure::other(format!("--otlp-endpoint {url}: {error}")))?;
        let resource = Resource::builder().with_service_name("lockhouse").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Self(provider))
    }

    /// The layer of the log's subscriber that records spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + 'static,
    {
        let tracer = self.0.tracer("lockhouse");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends the spans that were not sent yet.
    pub(crate) fn end(&self) {
        if let Err(error) = self.0.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// Whether a span or an event is sent: spans of Lockhouse are, and lines of the log are not.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("lockhouse")
}

/// The URL of a collector.
pub(crate) fn collector(text: &str) -> Result<String, String> {
    match text.strip_prefix("http://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', '@']) => Ok(text.into()),
        _ => Err(
            "takes http://HOST:PORT; run a collector beside the server, which sends the traces on"
                .into(),
        ),
    }
}

/// An HTTP client that runs on `runtime`, whichever thread calls it.
#[derive(Debug)]
struct Client {
    client: Arc<HyperClient>,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        let sending = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        sending.await?
    }
}
