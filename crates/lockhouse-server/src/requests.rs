//! `/v1/requests`: acquiring, renewing, releasing, and who holds.

use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use lockhouse::store::{self, Kind};
use lockhouse::{
    Ask, Code, Cursor, Error, ExternalId, Lockhouse, Owner, Request, SemaphoreName, Ttl,
};
use lockhouse_wire::{self as wire, Acquire, Released, Renew, Requests};

use crate::body::{Json, Nothing, OptionalJson};
use crate::connection::Caller;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::paging::Paging;
use crate::path::Named;
use crate::query::{NoParameters, parameters};
use crate::stopping::Stopping;

/// About how long a page of a listing may be.
const MOST_BYTES: usize = 1024 * 1024;

/// How many requests of a page are read first, to see how long they are.
const FIRST_PART: usize = 32;

/// Grants, waiting at most as long as asked. A caller that hangs up while it waits has this future
/// dropped, and with it its place in the line.
pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    State(stopping): State<Stopping>,
    caller: Caller,
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
    Json(body): Json<Acquire>,
) -> Result<(StatusCode, Json<wire::Request>), Failure> {
    let (ask, wait) = body.parse(external_id)?;
    let (request, now) = acquire(&lockhouse, &stopping, &caller, ask, wait).await?;
    let status = match now {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(wire::Request::from(&request))))
}

async fn acquire(
    lockhouse: &Lockhouse,
    stopping: &Stopping,
    caller: &Caller,
    ask: Ask,
    wait: Duration,
) -> Result<(Request, bool), Error> {
    if wait.is_zero() {
        return lockhouse.acquire(ask, wait).await;
    }
    let Some(_place) = caller.may_wait() else {
        return match lockhouse.acquire(ask, Duration::ZERO).await {
            Err(error) if error.code() == Code::Exhausted => Err(Error::Overloaded),
            answer => answer,
        };
    };
    tokio::select! {
        answer = lockhouse.acquire(ask.clone(), wait) => return answer,
        () = stopping.begun() => {}
        () = caller.end_when_it_hangs_up() => {}
    }
    // The wait was dropped, perhaps in the very moment of its grant: one more look finds that.
    match lockhouse.acquire(ask, Duration::ZERO).await {
        Err(error) if error.code() == Code::Exhausted => {
            let what =
                "the server is stopping; send the call again, to another server if there is one";
            Err(store::Error::new(Kind::Unavailable, what).into())
        }
        answer => answer,
    }
}

pub(crate) async fn get(
    State(lockhouse): State<Lockhouse>,
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
) -> Result<Json<wire::Request>, Failure> {
    let request = lockhouse.find(&external_id).await?;
    Ok(Json(wire::Request::from(&request)))
}

pub(crate) async fn renew(
    State(lockhouse): State<Lockhouse>,
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
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
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
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

/// `?owner=…&semaphore=…&cursor=…&limit=…`: which live requests are listed.
pub(crate) struct Listing {
    owner: Option<Owner>,
    on: Option<SemaphoreName>,
    paging: Paging<Cursor>,
}

impl<S: Send + Sync> FromRequestParts<S> for Listing {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let names = ["owner", "semaphore", "cursor", "limit"];
        let [owner, on, cursor, limit] = parameters(&parts.uri, names)?;
        Ok(Self {
            owner: owner.map(Owner::parse).transpose()?,
            on: on.map(SemaphoreName::parse).transpose()?,
            paging: Paging::of(cursor, limit)?,
        })
    }
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    Listing { owner, on, paging }: Listing,
) -> Result<Json<Requests>, Failure> {
    let (requests, next) = page(&lockhouse, owner.as_ref(), on.as_ref(), &paging).await?;
    Ok(Json(Requests { requests, next }))
}

/// A piece of the live requests of `owner`, or of anybody, that hold permits of `on`, or of any
/// semaphore; and where the next begins.
///
/// It has fewer than were asked for if it would be too long. It is read in parts, the first of them
/// small, so that little more is read than is answered.
pub(crate) async fn page(
    lockhouse: &Lockhouse,
    owner: Option<&Owner>,
    on: Option<&SemaphoreName>,
    paging: &Paging<Cursor>,
) -> Result<(Vec<wire::Request>, Option<String>), Error> {
    let held = async |after, limit| match owner {
        Some(owner) => lockhouse.held_by(owner, on, after, limit).await,
        None => lockhouse.holders(on, after, limit).await,
    };
    let mut page: Vec<wire::Request> = Vec::new();
    let (mut bytes, mut after) = (0, paging.after);
    while bytes < MOST_BYTES && !paging.is_full(page.len()) {
        let left = paging.limit as usize - page.len();
        let fit = match page.len() {
            0 => FIRST_PART,
            read => (MOST_BYTES - bytes).div_ceil(bytes / read),
        };
        let many = fit.min(left);
        let part = held(after, u32::try_from(many).unwrap_or(u32::MAX)).await?;
        bytes += part.requests.iter().map(size).sum::<usize>();
        page.extend(part.requests.iter().map(wire::Request::from));
        after = part.next;
        // A part that is short took long.
        if after.is_none() || part.requests.len() < many {
            break;
        }
    }
    Ok((page, after.map(|after| wire::cursor(&after.to_string()))))
}

/// About how long `request` is as JSON.
fn size(request: &Request) -> usize {
    let texts = [&request.owner, &request.ended_by];
    let texts = texts.into_iter().flatten();
    let permits = request.permits.iter();
    let permits = permits.map(|permit| 64 + permit.semaphore.as_str().len());
    256 + request.external_id.as_str().len()
        + texts.map(|text| text.as_str().len()).sum::<usize>()
        + permits.sum::<usize>()
}
