//! Steps that many rules share.

use std::time::Duration;

use lockhouse::{
    Ask, Count, Error, ExternalId, Lockhouse, Owner, Refusal, Request, SemaphoreName, Ttl,
};

/// Long enough for a loaded machine. Only a failing test waits this long.
pub(super) const SOON: Duration = Duration::from_secs(20);

pub(super) fn ask(id: &str, permits: &[(&str, u32)]) -> Ask {
    let permits = permits
        .iter()
        .map(|(semaphore, count)| (name(semaphore), Count::new(*count).unwrap()));
    Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap()
}

pub(super) fn with_ttl(mut ask: Ask, ttl: Duration) -> Ask {
    ask.ttl = Some(Ttl::new(ttl).unwrap());
    ask
}

pub(super) fn owned_by(mut ask: Ask, owner: &str) -> Ask {
    ask.owner = Some(Owner::parse(owner).unwrap());
    ask
}

pub(super) fn name(name: &str) -> SemaphoreName {
    SemaphoreName::parse(name).unwrap()
}

/// Acquires one permit of each of `semaphores`, without a wait.
pub(super) async fn grant(
    lockhouse: &Lockhouse,
    id: &str,
    permits: &[(&str, u32)],
) -> Result<Request, Error> {
    Ok(lockhouse.acquire(ask(id, permits), Duration::ZERO).await?.0)
}

pub(super) async fn in_use(lockhouse: &Lockhouse, semaphore: &str) -> u32 {
    lockhouse.status(semaphore).await.unwrap().semaphore.in_use
}

#[track_caller]
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("should have been refused: {other:?}"),
    }
}

/// Waits until `check` returns true.
pub(super) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(SOON, async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"));
}
