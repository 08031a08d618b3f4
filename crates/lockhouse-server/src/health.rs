//! `/healthz`: the process runs. `/readyz`: its store answers too, with the state of the upkeep.

use axum::extract::State;
use lockhouse::Lockhouse;

use crate::failure::Failure;

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// A server whose upkeep fails is still ready: calls end the lapsed requests in their way
/// themselves.
pub(crate) async fn readyz(State(lockhouse): State<Lockhouse>) -> Result<String, Failure> {
    lockhouse.ready().await?;
    Ok(format!("ready\nupkeep: {}\n", lockhouse.upkeep_state()))
}
