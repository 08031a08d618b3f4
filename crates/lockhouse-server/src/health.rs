//! `/healthz`: the process lives. `/readyz`: its store answers too, and how the upkeep goes.

use axum::extract::State;
use lockhouse::Lockhouse;

use crate::failure::Failure;

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// A server whose upkeep fails is ready all the same: calls end what is in their way themselves.
pub(crate) async fn readyz(State(lockhouse): State<Lockhouse>) -> Result<String, Failure> {
    lockhouse.ready().await?;
    Ok(format!("ready\nupkeep: {}\n", lockhouse.upkeep_state()))
}
