//! `/v1/owners/{owner}`: heartbeats and goodbyes.

use std::sync::Arc;

use axum::extract::State;
use lockhouse::{Lockhouse, Owner, Ttl, Verb};
use lockhouse_wire::{self as wire, Goodbye, Heartbeat};

use crate::access::{Access, Principal};
use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::path::Named;
use crate::query::NoParameters;

/// The heartbeat is that of the caller's own owner, whatever other tokens have an owner of that name:
/// a caller's session is not in the hands of others.
pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(owner): Named<Owner>,
    _: NoParameters,
    Json(body): Json<Heartbeat>,
) -> Result<Json<wire::OwnerSession>, Failure> {
    let ttl = Ttl::from_ms(body.ttl_ms)?;
    let own = principal.own(Some(owner.clone()))?.unwrap_or(owner);
    let heard = lockhouse.heartbeat_as(own, ttl, body.must_exist).await?;
    Ok(Json(wire::OwnerSession::from(&heard)))
}

/// A caller that has no such owner means the owners of other tokens, for which it needs `force:*`.
///
/// If the caller hangs up, the requests released so far stay released, and a repeated call releases
/// the rest.
pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    State(access): State<Arc<Access>>,
    principal: Principal,
    Named(owner): Named<Owner>,
    _: NoParameters,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<(Option<Audited>, Json<Goodbye>), Failure> {
    let others = access.others(&lockhouse, &principal, &owner).await?;
    let (released, audited) = if others.is_empty() {
        let own = principal.own(Some(owner.clone()))?;
        let own = own.unwrap_or_else(|| owner.clone());
        (lockhouse.goodbye_as(&own).await?, None)
    } else {
        principal.must_all(Verb::Force, "")?;
        let mut released = 0;
        for other in others {
            released += lockhouse.goodbye_as(&other).await?;
        }
        let audited = Audited::new("force", "owner", &owner).with("released", released);
        (released, Some(audited))
    };
    let owner = owner.to_string();
    Ok((audited, Json(Goodbye { owner, released })))
}
