//! `/v1/owners/{owner}`: heartbeats and goodbyes.

use axum::extract::State;
use lockhouse::{Heard, Lockhouse, Owner, Ttl};
use lockhouse_wire::{self as wire, Goodbye, Heartbeat};

use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::path::Named;
use crate::query::NoParameters;

pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    Named(owner): Named<Owner>,
    _: NoParameters,
    Json(body): Json<Heartbeat>,
) -> Result<Json<wire::OwnerSession>, Failure> {
    let ttl = Ttl::from_ms(body.ttl_ms)?;
    let ttl = ttl.as_duration();
    let heard = match body.must_exist {
        true => Heard {
            session: lockhouse.renew_session(&owner, ttl).await?,
            began: false,
        },
        false => lockhouse.heartbeat(&owner, ttl).await?,
    };
    Ok(Json(wire::OwnerSession::from(&heard)))
}

/// What was released stays so if the caller hangs up; asked again, it goes on with the rest.
pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    Named(owner): Named<Owner>,
    _: NoParameters,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<Json<Goodbye>, Failure> {
    let released = lockhouse.goodbye(&owner).await?;
    let owner = owner.to_string();
    Ok(Json(Goodbye { owner, released }))
}
