//! Gauges of single semaphores, which are read from the store for each scrape.
//!
//! A store may have a million semaphores, and Prometheus keeps a series for each. So gauges are
//! shown for semaphores whose names begin with a prefix that the operator chose; without one, for
//! the busiest of the first thousand by name.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Error, Lockhouse, SemaphoreStatus};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::timeout;

/// How many semaphores of a prefix are shown, or compared to find the busiest.
const MOST: u32 = 1_000;

/// How many semaphores are shown if the operator chose no prefix.
const BUSIEST: usize = 20;

/// How long the store may take. A scrape has 10 s, and must be answered even if the store does not
/// answer.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SemaphoreLabel {
    semaphore: String,
}

/// Appends the gauges of semaphores to `text`, and a gauge of whether the store answered.
pub(crate) async fn encode(
    text: &mut String,
    lockhouse: &Lockhouse,
    prefixes: &Arc<[String]>,
) -> fmt::Result {
    let [capacity, in_use, waiting] = [(); 3].map(|()| Family::<SemaphoreLabel, Gauge>::default());
    let reachable = Gauge::<i64>::default();
    if let Ok(Ok(shown)) = timeout(PATIENCE, shown(lockhouse, prefixes)).await {
        reachable.set(1);
        for status in shown.unwrap_or_default() {
            let of = SemaphoreLabel {
                semaphore: status.semaphore.name.to_string(),
            };
            let set = |family: &Family<SemaphoreLabel, Gauge>, value: u32| {
                family.get_or_create(&of).set(value.into());
            };
            set(&capacity, status.semaphore.capacity.value());
            set(&in_use, status.semaphore.in_use);
            set(&waiting, status.waiting);
        }
    }
    let mut registry = Registry::with_prefix("lockhouse");
    registry.register(
        "store_reachable",
        "1 if the store answered when these metrics were read, else 0",
        reachable,
    );
    let of_it = registry.sub_registry_with_prefix("semaphore");
    of_it.register("capacity", "How many permits the semaphore has", capacity);
    of_it.register("in_use", "How many of its permits are held", in_use);
    of_it.register(
        "waiting",
        "How many calls wait for it, at all processes",
        waiting,
    );
    encode_registry(text, &registry)
}

/// `None` if the store answers, but too many other listings are under way.
async fn shown(
    lockhouse: &Lockhouse,
    prefixes: &[String],
) -> Result<Option<Vec<SemaphoreStatus>>, Error> {
    match listed(lockhouse, prefixes).await {
        Err(Error::Overloaded) => lockhouse.ready().await.map(|()| None),
        listed => listed.map(Some),
    }
}

async fn listed(lockhouse: &Lockhouse, prefixes: &[String]) -> Result<Vec<SemaphoreStatus>, Error> {
    if prefixes.is_empty() {
        let mut all = lockhouse.semaphores_with_prefix("", None, MOST).await?;
        all.sort_by_key(|status| Reverse((status.waiting, status.semaphore.in_use)));
        all.truncate(BUSIEST);
        return Ok(all);
    }
    let mut shown = Vec::new();
    for prefix in prefixes {
        let of_it = lockhouse.semaphores_with_prefix(prefix, None, MOST);
        shown.extend(of_it.await?);
    }
    Ok(shown)
}
