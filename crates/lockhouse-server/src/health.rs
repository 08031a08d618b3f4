//! `/healthz`: the process lives. `/readyz`: its store answers too.

use axum::extract::State;
use lockhouse::Lockhouse;

use crate::failure::Failure;

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

pub(crate) async fn readyz(State(lockhouse): State<Lockhouse>) -> Result<&'static str, Failure> {
    lockhouse.ready().await?;
    Ok("ready\n")
}
