//! `/v1/semaphores`: defining, listing, deleting, who holds and how capacities changed.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use lockhouse::wire::{self, Define, History, Holders, Semaphores};
use lockhouse::{ExternalId, Lockhouse, SemaphoreName};

use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::paging::{Limit, Paging};
use crate::path::Named;
use crate::query::NoParameters;

pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<SemaphoreName>,
    _: NoParameters,
    headers: HeaderMap,
    Json(body): Json<Define>,
) -> Result<(StatusCode, Json<wire::Semaphore>), Failure> {
    let mut define = lockhouse.define(&name, body.capacity);
    if has_star(&headers, "If-Match")? {
        define = define.must_exist();
    }
    if has_star(&headers, "If-None-Match")? {
        define = define.as_it_is();
    }
    if let Some(expected) = body.expected_capacity {
        define = define.expected(expected);
    }
    if let Some(who) = body.changed_by {
        define = define.changed_by(who);
    }
    if let Some(note) = body.note {
        define = define.note(note);
    }
    let (semaphore, created) = define.send().await?;
    let status = match created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(wire::Semaphore::from(&semaphore))))
}

/// `If-Match: *` asks for a semaphore that exists, `If-None-Match: *` for one that is new, or as it shall
/// be already. Semaphores have no entity tags.
fn has_star(headers: &HeaderMap, condition: &'static str) -> Result<bool, Failure> {
    let mut given = headers.get_all(condition).iter().peekable();
    let is_given = given.peek().is_some();
    match given.all(|value| value == "*") {
        true => Ok(is_given),
        false => Err(Failure::malformed(condition, "takes nothing but *")),
    }
}

pub(crate) async fn get(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<SemaphoreName>,
    _: NoParameters,
) -> Result<Json<wire::Semaphore>, Failure> {
    let semaphore = lockhouse.status(&name).await?;
    Ok(Json(wire::Semaphore::from(&semaphore)))
}

pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<SemaphoreName>,
    _: NoParameters,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<StatusCode, Failure> {
    lockhouse.delete(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    paging: Paging<SemaphoreName>,
) -> Result<Json<Semaphores>, Failure> {
    let after = paging.after.as_ref();
    let listed = lockhouse.semaphores(after, paging.limit).await?;
    let mut next = None;
    if let Some(last) = listed.last().filter(|_| paging.is_full(listed.len())) {
        let name = &last.semaphore.name;
        let more = lockhouse.semaphores(Some(name), 1).await?;
        next = (!more.is_empty()).then(|| wire::cursor(name.as_str()));
    }
    let semaphores = listed.iter().map(wire::Semaphore::from).collect();
    Ok(Json(Semaphores { semaphores, next }))
}

pub(crate) async fn holders(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<SemaphoreName>,
    paging: Paging<ExternalId>,
) -> Result<Json<Holders>, Failure> {
    let (holders, next) = crate::requests::page(&lockhouse, None, Some(&name), &paging).await?;
    Ok(Json(Holders { holders, next }))
}

pub(crate) async fn history(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<SemaphoreName>,
    Limit(limit): Limit,
) -> Result<Json<History>, Failure> {
    let changes = lockhouse.history(&name, limit).await?;
    let changes = changes.iter().map(wire::CapacityChange::from).collect();
    Ok(Json(History { changes }))
}
