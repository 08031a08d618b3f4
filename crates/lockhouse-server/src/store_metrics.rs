//! The metrics of the store: how long its calls take, which errors they end with, how large batches are, how often calls are tried
//! again, which connections there are, and why requests end.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use lockhouse::EndReason;
use lockhouse::store::{Batch, Call, Connections, Error, FullStore, Kind, Layer, Outcome, Reply};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tracing::{Instrument as _, Span};

/// Seconds. A call ends within 10 s.
const DURATIONS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 2.5, 10.0,
];

/// Commands.
const BATCH_SIZES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The call that decides and saves a batch.
const TRANSACT: &str = "transact";

/// Counts and times the calls to a store, for `/metrics`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lockhouse::Lockhouse;
/// use lockhouse_server::{Options, StoreMetrics};
///
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("x.db").display());
/// let (store, metrics) = StoreMetrics::around(lockhouse_stores::open(&url)?);
/// store.migrate().await?;
/// let lockhouse = Lockhouse::with_store(store);
/// let options = Options {
///     store_metrics: Some(metrics),
///     ..Options::default()
/// };
/// # drop((lockhouse, options));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    store: Arc<dyn FullStore>,
    measures: Arc<Measures>,
}

#[derive(Debug)]
struct Measures {
    registry: Registry,
    durations: Family<Called, Histogram>,
    errors: Family<Failed, Counter>,
    batch_sizes: Histogram,
    ends: Family<Ended, Counter>,
}

/// The layer that measures the calls to a store.
#[derive(Debug)]
struct Measured {
    store: Arc<dyn FullStore>,
    measures: Arc<Measures>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    call: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    call: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Retried {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    reason: &'static str,
}

impl StoreMetrics {
    /// `store`, with its calls measured, and the measures.
    pub fn around(store: Arc<dyn FullStore>) -> (Arc<dyn FullStore>, Self) {
        let measures = Arc::new(Measures::new());
        let measured = Measured {
            store: Arc::clone(&store),
            measures: Arc::clone(&measures),
        };
        (Arc::new(measured), Self { store, measures })
    }

    /// Appends the metrics to `text`. `retries` are those of the engine on the store.
    pub(crate) fn encode(&self, text: &mut String, retries: &[(Kind, u64)]) -> std::fmt::Result {
        encode_registry(text, &self.measures.registry)?;
        encode_registry(text, &as_they_are_now(&self.store.connections(), retries))
    }
}

impl Measures {
    fn new() -> Self {
        let durations = Family::new_with_constructor((|| Histogram::new(DURATIONS)) as fn() -> _);
        let errors = Family::<Failed, Counter>::default();
        let ends = Family::<Ended, Counter>::default();
        // These counters exist from the start. Prometheus has no rate for a counter that appears with its first event.
        for kind in Kind::TRANSIENT.map(kind) {
            let call = TRANSACT;
            let _ = errors.get_or_create(&Failed { call, kind });
        }
        for reason in EndReason::ALL.map(EndReason::as_str) {
            let _ = ends.get_or_create(&Ended { reason });
        }
        let batch_sizes = Histogram::new(BATCH_SIZES);
        let mut registry = Registry::with_prefix("lockhouse");
        registry.register(
            "requests_ended",
            "Requests that this server ended, by the reason",
            ends.clone(),
        );
        let store = registry.sub_registry_with_prefix("store");
        store.register_with_unit(
            "call_duration",
            "How long calls to the store took, those that failed included",
            Unit::Seconds,
            durations.clone(),
        );
        store.register(
            "errors",
            "Calls to the store that failed; most are tried again",
            errors.clone(),
        );
        store.register(
            "batch_commands",
            "How many commands a batch had",
            batch_sizes.clone(),
        );
        Self {
            registry,
            durations,
            errors,
            batch_sizes,
            ends,
        }
    }

    async fn measure<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let answer = answer.instrument(span(call)).await;
        let durations = self.durations.get_or_create(&Called { call });
        durations.observe(begun.elapsed().as_secs_f64());
        if let Err(error) = &answer {
            let kind = kind(error.kind());
            self.errors.get_or_create(&Failed { call, kind }).inc();
        }
        answer
    }

    fn count_ends(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let Ok(Reply::Ended {
                request, now: true, ..
            }) = outcome
            else {
                continue;
            };
            if let Some(reason) = request.end_reason() {
                let reason = reason.as_str();
                self.ends.get_or_create(&Ended { reason }).inc();
            }
        }
    }
}

impl Layer for Measured {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.measures.measure(call.name(), answer).await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        self.measures
            .batch_sizes
            .observe(batch.commands.len() as f64);
        let outcomes = self
            .measures
            .measure(TRANSACT, self.store.transact(batch))
            .await?;
        self.measures.count_ends(&outcomes);
        Ok(outcomes)
    }
}

/// The metrics that are read when somebody asks for them.
fn as_they_are_now(connections: &Connections, retries: &[(Kind, u64)]) -> Registry {
    let mut registry = Registry::with_prefix("lockhouse");
    let store = registry.sub_registry_with_prefix("store");
    let tried_again = Family::<Retried, Counter>::default();
    for (error, number) in retries {
        let kind = kind(*error);
        tried_again.get_or_create(&Retried { kind }).inc_by(*number);
    }
    store.register(
        "retries",
        "Calls to the store that were tried again, by the error before",
        tried_again,
    );
    let open = Family::<InState, Gauge>::default();
    for (state, number) in [("busy", connections.busy), ("idle", connections.idle)] {
        open.get_or_create(&InState { state }).set(number as i64);
    }
    store.register("connections", "Connections to the database", open);
    let gauge = |number: usize| {
        let gauge = Gauge::<i64>::default();
        gauge.set(number as i64);
        gauge
    };
    store.register(
        "connections_limit",
        "The most connections to the database",
        gauge(connections.most),
    );
    store.register(
        "calls_queued",
        "Calls to the store that wait for a free connection",
        gauge(connections.queued),
    );
    let opened = Counter::<u64>::default();
    opened.inc_by(connections.opened);
    store.register(
        "connections_opened",
        "Connections to the database that were opened",
        opened,
    );
    registry
}

/// The span of a call to the store that belongs to a call of the server.
fn span(call: &'static str) -> Span {
    match Span::current().is_disabled() {
        true => Span::none(),
        false => tracing::debug_span!("store", otel.name = format!("store {call}")),
    }
}

/// The label of an error's kind.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Conflict => "conflict",
        Kind::Locked => "locked",
        Kind::Unavailable => "unavailable",
        Kind::Crowded => "crowded",
        Kind::Unknown => "unknown",
        Kind::Rejected => "rejected",
        Kind::Schema => "schema",
        Kind::Configuration => "configuration",
        _ => "other",
    }
}
