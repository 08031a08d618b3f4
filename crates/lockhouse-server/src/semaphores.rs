//! `/v1/semaphores`: define, list and delete; holders, waiters and history.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use lockhouse::access::{Covered, Verb};
use lockhouse::{Code, Cursor, Error, Lockhouse, SemaphoreName, SemaphoreStatus};
use lockhouse_wire::{self as wire, Define, History, Holders, Semaphores, Waiting};

use crate::access::Principal;
use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::held;
use crate::paging::{Limit, Paging};
use crate::path::Named;
use crate::query::{NoParameters, parameters};

pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(name): Named<SemaphoreName>,
    _: NoParameters,
    headers: HeaderMap,
    Json(body): Json<Define>,
) -> Result<(StatusCode, Audited, Json<wire::Semaphore>), Failure> {
    let mut define = lockhouse.define(&name, body.capacity);
    if has_star(&headers, "If-Match")? {
        define = define.must_exist();
    }
    if has_star(&headers, "If-None-Match")? {
        define = define.if_missing();
    }
    match body.slots {
        Some(true) => define = define.slots(),
        Some(false) => define = define.without_slots(),
        None => {}
    }
    if let Some(expected) = body.expected_capacity {
        define = define.expected(expected);
    }
    if let Some(who) = body.changed_by.as_deref().or(principal.name()) {
        define = define.changed_by(who);
    }
    if let Some(note) = body.note {
        define = define.note(note);
    }
    let (semaphore, created) = define.send().await?;
    let (status, action) = match created {
        true => (StatusCode::CREATED, "define"),
        false => (StatusCode::OK, "resize"),
    };
    let semaphore = wire::Semaphore::from(&semaphore);
    let audited = Audited::new(action, "semaphore", &name).with("capacity", semaphore.capacity);
    Ok((status, audited, Json(semaphore)))
}

/// `If-Match: *` requires that the semaphore exists; `If-None-Match: *` that it is new, or already
/// as defined. Semaphores have no entity tags.
fn has_star(headers: &HeaderMap, condition: &'static str) -> Result<bool, Failure> {
    let mut given = headers.get_all(condition).iter().peekable();
    let is_given = given.peek().is_some();
    match given.all(|value| value == "*") {
        true => Ok(is_given),
        false => Err(Failure::malformed(condition, "accepts only *")),
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
) -> Result<(StatusCode, Audited), Failure> {
    lockhouse.delete(&name).await?;
    let audited = Audited::new("delete", "semaphore", &name);
    Ok((StatusCode::NO_CONTENT, audited))
}

/// `?prefix=…&cursor=…&limit=…`: which semaphores are listed.
pub(crate) struct ListedSemaphores {
    prefix: String,
    paging: Paging<SemaphoreName>,
}

impl<S: Send + Sync> FromRequestParts<S> for ListedSemaphores {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [prefix, cursor, limit] = parameters(&parts.uri, ["prefix", "cursor", "limit"])?;
        Ok(Self {
            prefix: prefix.unwrap_or_default(),
            paging: Paging::of(cursor, limit)?,
        })
    }
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    ListedSemaphores { prefix, paging }: ListedSemaphores,
) -> Result<Json<Semaphores>, Failure> {
    let covered = principal.covered(Verb::Read, &prefix);
    let list = |after, limit| seen(&lockhouse, &covered, &prefix, after, limit);
    let listed = list(paging.after.as_ref(), paging.limit).await?;
    let mut next = None;
    if let Some(last) = listed.last().filter(|_| paging.is_full(listed.len())) {
        let name = &last.semaphore.name;
        let more = list(Some(name), 1).await?;
        next = (!more.is_empty()).then(|| wire::cursor(name.as_str()));
    }
    let semaphores = listed.iter().map(wire::Semaphore::from).collect();
    Ok(Json(Semaphores { semaphores, next }))
}

/// The semaphores after `after` that the caller's grants cover, and whose names begin with
/// `prefix`.
async fn seen(
    lockhouse: &Lockhouse,
    covered: &[Covered<'_>],
    prefix: &str,
    after: Option<&SemaphoreName>,
    limit: u32,
) -> Result<Vec<SemaphoreStatus>, Error> {
    let mut listed = Vec::new();
    for covered in covered {
        let left = limit - u32::try_from(listed.len()).unwrap_or(limit);
        if left == 0 {
            break;
        }
        match *covered {
            Covered::All(own) => {
                let prefix = if own.len() > prefix.len() {
                    own
                } else {
                    prefix
                };
                listed.extend(
                    lockhouse
                        .semaphores_with_prefix(prefix, after, left)
                        .await?,
                );
            }
            Covered::One(name) if after.is_none_or(|after| after.as_str() < name) => {
                match lockhouse.status(name).await {
                    Err(error) if error.code() == Code::UnknownSemaphore => {}
                    status => listed.push(status?),
                }
            }
            Covered::One(_) => {}
        }
    }
    Ok(listed)
}

pub(crate) async fn holders(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(name): Named<SemaphoreName>,
    paging: Paging<Cursor>,
) -> Result<Json<Holders>, Failure> {
    let (holders, next) = held::page(&lockhouse, &principal, None, Some(&name), &paging).await?;
    let next = next.map(|next| wire::cursor(&next.to_string()));
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

pub(crate) async fn waiting(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(name): Named<SemaphoreName>,
    _: NoParameters,
) -> Result<Json<Waiting>, Failure> {
    let mut waiting = lockhouse.waiting(&name).await?;
    for waiter in &mut waiting {
        let may_read = |name: &SemaphoreName| principal.must(Verb::Read, name.as_str()).is_ok();
        waiter.lacks.retain(may_read);
    }
    let waiting = waiting.iter().map(wire::Waiter::from).collect();
    Ok(Json(Waiting { waiting }))
}
