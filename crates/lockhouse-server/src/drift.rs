//! Recounting all permits now and then, so that drift is found without an operator who looks.
//!
//! One of the servers of a store does it: the one that does the upkeep. A recount reads all rows in one consistent read.

use std::convert::Infallible;
use std::time::Duration;

use lockhouse::{Lockhouse, UpkeepState};
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::sleep;

/// Recounts `every` so often, if at all, and sets `found` to how much did not match.
pub(crate) async fn watch(
    lockhouse: &Lockhouse,
    every: Option<Duration>,
    found: &Gauge,
) -> Infallible {
    let Some(every) = every else {
        return std::future::pending().await;
    };
    loop {
        sleep(every).await;
        if lockhouse.upkeep_state() == UpkeepState::Standby {
            // The server that does the upkeep says what it finds.
            found.set(0);
            continue;
        }
        match lockhouse.verify().await {
            Ok(findings) => {
                for finding in &findings {
                    tracing::error!(%finding, "drift; `lockhouse verify --repair` mends counters");
                }
                found.set(i64::try_from(findings.len()).unwrap_or(i64::MAX));
            }
            Err(error) => tracing::warn!(%error, "the permits could not be recounted"),
        }
    }
}
