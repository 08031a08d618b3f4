//! `/v1/owners/{owner}`: heartbeats and goodbyes.

use std::sync::Arc;

use axum::extract::State;
use lockhouse::access::{Verb, goodbye_as, heartbeat_as};
use lockhouse::{Error, Lockhouse, Owner, Refusal, Ttl};
use lockhouse_wire::{self as wire, Goodbye, Heartbeat};

use crate::access::{Access, Principal};
use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::path::Named;
use crate::query::NoParameters;

pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    State(access): State<Arc<Access>>,
    principal: Principal,
    Named(owner): Named<Owner>,
    _: NoParameters,
    Json(body): Json<Heartbeat>,
) -> Result<Json<wire::OwnerSession>, Failure> {
    let ttl = Ttl::from_ms(body.ttl_ms)?;
    let heard = match principal.own(Some(owner.clone()))? {
        Some(own) if principal.token().is_some() => {
            match heartbeat_as(&lockhouse, own.clone(), ttl, true).await {
                Err(Error::Refused(Refusal::SessionEnded(_))) => {
                    let others = access.others(&lockhouse, &principal, &owner).await?;
                    let other = others.into_iter().next();
                    if other.is_some() {
                        principal.must_all(Verb::Force, "")?;
                    }
                    let owner = other.unwrap_or(own);
                    heartbeat_as(&lockhouse, owner, ttl, body.must_exist).await?
                }
                heard => heard?,
            }
        }
        _ => heartbeat_as(&lockhouse, owner, ttl, body.must_exist).await?,
    };
    Ok(Json(wire::OwnerSession::from(&heard)))
}

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
    let own = principal.own(Some(owner.clone()))?;
    let own = own.unwrap_or_else(|| owner.clone());
    let mut released = goodbye_as(&lockhouse, &own).await?;
    let others = access.others(&lockhouse, &principal, &owner).await?;
    // A caller whose own requests were released gets no error about other tokens' owners.
    if !others.is_empty() && released == 0 {
        principal.must_all(Verb::Force, "")?;
    }
    let mut forced = 0;
    if principal.must_all(Verb::Force, "").is_ok() {
        for other in others {
            forced += goodbye_as(&lockhouse, &other).await?;
        }
    }
    released += forced;
    let audited = Audited::new("force", "owner", &owner).with("released", forced);
    let audited = (forced > 0).then_some(audited);
    let owner = owner.to_string();
    Ok((audited, Json(Goodbye { owner, released })))
}
