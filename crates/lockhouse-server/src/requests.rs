//! `/v1/requests`: acquiring, renewing, releasing, and who holds.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use lockhouse::store::{self, Kind};
use lockhouse::wire::{self, Acquire, Released, Renew, Requests};
use lockhouse::{Ask, Error, ExternalId, Lockhouse, Owner, Refusal, Request, SemaphoreName, Ttl};

use crate::body::{Json, OptionalJson};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::paging::Paging;
use crate::path::Named;
use crate::stopping::Stopping;

/// Grants, waiting at most as long as asked. A caller that hangs up has this future dropped, and
/// with it its place in the queue.
pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    State(stopping): State<Stopping>,
    Named(external_id): Named<ExternalId>,
    Json(body): Json<Acquire>,
) -> Result<(StatusCode, Json<wire::Request>), Failure> {
    let (ask, wait) = body.parse(external_id)?;
    let (request, now) = acquire(&lockhouse, &stopping, ask, wait).await?;
    let status = match now {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(wire::Request::from(&request))))
}

async fn acquire(
    lockhouse: &Lockhouse,
    stopping: &Stopping,
    ask: Ask,
    wait: Duration,
) -> Result<(Request, bool), Error> {
    if wait.is_zero() {
        return lockhouse.acquire(ask, wait).await;
    }
    tokio::select! {
        answer = lockhouse.acquire(ask.clone(), wait) => return answer,
        () = stopping.begun() => {}
    }
    // The wait was dropped, perhaps in the very moment of its grant: one more look finds that.
    match lockhouse.acquire(ask, Duration::ZERO).await {
        Err(Error::Refused(Refusal::Exhausted(_))) => {
            let what = "the server is about to stop; ask again, of another if there is one";
            Err(store::Error::new(Kind::Unavailable, what).into())
        }
        answer => answer,
    }
}

pub(crate) async fn get(
    State(lockhouse): State<Lockhouse>,
    Named(external_id): Named<ExternalId>,
) -> Result<Json<wire::Request>, Failure> {
    let request = lockhouse.find(&external_id).await?;
    Ok(Json(wire::Request::from(&request)))
}

pub(crate) async fn renew(
    State(lockhouse): State<Lockhouse>,
    Named(external_id): Named<ExternalId>,
    OptionalJson(body): OptionalJson<Renew>,
) -> Result<Json<wire::Request>, Failure> {
    let ttl = body.ttl_ms.map(Ttl::from_ms).transpose()?;
    let request = lockhouse
        .renew(&external_id, ttl.map(Ttl::as_duration))
        .await?;
    Ok(Json(wire::Request::from(&request)))
}

pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    Named(external_id): Named<ExternalId>,
    ending: Ending,
) -> Result<Json<Released>, Failure> {
    let released = match ending {
        Ending::Released { by: Some(by) } => lockhouse.release_by(&external_id, by).await?,
        Ending::Released { by: None } => lockhouse.release(&external_id).await?,
        Ending::Forced { by } => {
            let by = by.as_ref().map(Owner::as_str);
            lockhouse.force_release(&external_id, by).await?
        }
    };
    Ok(Json(Released {
        released: released.now,
        decided_at: released.decided_at,
        request: wire::Request::from(&released.request),
    }))
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    paging: Paging<ExternalId>,
) -> Result<Json<Requests>, Failure> {
    let (requests, next) = page(&lockhouse, None, &paging).await?;
    Ok(Json(Requests { requests, next }))
}

/// A piece of those that hold permits of `on`, or of any semaphore, and where the next begins.
pub(crate) async fn page(
    lockhouse: &Lockhouse,
    on: Option<&SemaphoreName>,
    paging: &Paging<ExternalId>,
) -> Result<(Vec<wire::Request>, Option<String>), Error> {
    let after = paging.after.as_ref();
    let listed = lockhouse.holders(on, after, paging.limit).await?;
    let mut next = None;
    if let Some(last) = listed.last().filter(|_| paging.is_full(listed.len())) {
        let id = &last.external_id;
        let more = lockhouse.holders(on, Some(id), 1).await?;
        next = (!more.is_empty()).then(|| wire::cursor(id.as_str()));
    }
    Ok((listed.iter().map(wire::Request::from).collect(), next))
}
