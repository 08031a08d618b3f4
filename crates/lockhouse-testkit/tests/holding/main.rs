//! When a holder learns that its hold is lost, compared with when other callers are granted its permit.

#![allow(clippy::unwrap_used)]

mod connections;
mod cut;
mod stopped;

use std::time::Duration;

use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName};
use tokio::time::{sleep, timeout};

/// Long enough for a loaded machine. Only a failing test waits this long.
const SOON: Duration = Duration::from_secs(20);

fn ask(id: &str) -> Ask {
    let permit = (SemaphoreName::parse("s").unwrap(), Count::ONE);
    Ask::new(ExternalId::parse(id).unwrap(), [permit]).unwrap()
}

/// Waits until the next renewal of the request `id`.
async fn renewed(lockhouse: &Lockhouse, id: &str) {
    let expires_at = async || lockhouse.find(id).await.unwrap().expires_at;
    let first = expires_at().await;
    let renewed = async {
        while expires_at().await == first {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, renewed).await.expect("it is renewed");
}
