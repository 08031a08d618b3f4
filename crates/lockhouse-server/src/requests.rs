//! `/v1/requests`: acquire, renew, release, and list.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use lockhouse::access::{Verb, release_as, renew_as};
use lockhouse::store::{self, Kind};
use lockhouse::{Ask, Code, Error, ExternalId, Lockhouse, Owner, Refusal, Released, Request, Ttl};
use lockhouse_wire::{self as wire, Acquire, Renew};

use crate::access::{Access, Principal};
use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::connection::Caller;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::metrics::Held;
use crate::path::Named;
use crate::query::NoParameters;
use crate::shares::Admitted;
use crate::stopping::Stopping;

/// Acquires, and waits as long as the caller asked. If the caller hangs up while it waits, this
/// future is dropped, and with it the place in the line.
pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    (State(stopping), State(access)): (State<Stopping>, State<Arc<Access>>),
    principal: Principal,
    (caller, admission): (Caller, Option<Extension<Admitted>>),
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
    Json(body): Json<Acquire>,
) -> Result<(StatusCode, Json<wire::Request>), Failure> {
    let (mut ask, wait) = body.parse(external_id)?;
    for (name, _) in ask.permits() {
        principal.must(Verb::Hold, name.as_str())?;
    }
    ask.owner = principal.own(ask.owner)?;
    let waits = !wait.is_zero();
    let semaphores = ask.permits().len();
    let place = waits.then(|| {
        let share = access.may_wait(&principal, semaphores);
        share.zip(caller.may_wait())
    });
    let allowed = match &place {
        None => AllowedWait::None,
        Some(None) => AllowedWait::Refused,
        Some(Some(_)) => AllowedWait::Until(wait),
    };
    let acquire = acquire(&lockhouse, &stopping, &caller, ask, allowed);
    let admission = admission
        .map(|Extension(admission)| admission)
        .unwrap_or_default();
    let (request, now) = tokio::select! {
        acquired = acquire => acquired?,
        // The dropped wait may have been granted in that moment. Such a grant stays, as if the caller had hung up (ADR 7): with
        // this id another server may have granted it, and its holder works.
        refused = access.is_lost(&principal) => return Err(refused),
        never = admission.end_soon() => match never {},
    };
    let status = match now {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(wire::Request::from(&request))))
}

/// How long a call may wait for room.
#[derive(Clone, Copy, Debug)]
enum AllowedWait {
    /// The caller asked for no wait.
    None,
    /// The caller asked to wait, but its token or the server has no place for another waiting call.
    Refused,
    Until(Duration),
}

async fn acquire(
    lockhouse: &Lockhouse,
    stopping: &Stopping,
    caller: &Caller,
    ask: Ask,
    allowed: AllowedWait,
) -> Result<(Request, bool), Error> {
    let wait = match allowed {
        AllowedWait::None => return lockhouse.acquire(ask, Duration::ZERO).await,
        AllowedWait::Refused => {
            return match lockhouse.acquire(ask, Duration::ZERO).await {
                Err(error) if error.code() == Code::Exhausted => Err(Error::Overloaded),
                answer => answer,
            };
        }
        AllowedWait::Until(wait) => wait,
    };
    tokio::select! {
        answer = lockhouse.acquire(ask.clone(), wait) => return answer,
        () = stopping.begun() => {}
        () = caller.end_when_it_hangs_up() => {}
    }
    // The dropped wait may have been granted in that moment. The same ask without a wait finds such a grant.
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
    principal: Principal,
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
) -> Result<Json<wire::Request>, Failure> {
    let request = lockhouse.find(&external_id).await?;
    let request = principal.see(request)?;
    Ok(Json(wire::Request::from(&request)))
}

pub(crate) async fn renew(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(external_id): Named<ExternalId>,
    _: NoParameters,
    OptionalJson(body): OptionalJson<Renew>,
) -> Result<(Option<Audited>, Json<wire::Request>), Failure> {
    let ttl = body.ttl_ms.map(Ttl::from_ms).transpose()?;
    let by = principal.own(None)?;
    let renewed = renew_as(&lockhouse, external_id.clone(), ttl, by).await;
    let (request, audited) = match renewed {
        Err(Error::Refused(Refusal::OfAnotherToken(_))) => {
            must_force(&lockhouse, &principal, &external_id).await?;
            let request = renew_as(&lockhouse, external_id, ttl, None).await?;
            let audited = Audited::new("renew_of_another", "request", &request.external_id);
            (request, Some(audited))
        }
        renewed => (renewed?, None),
    };
    Ok((audited, Json(wire::Request::from(&request))))
}

pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    principal: Principal,
    Named(external_id): Named<ExternalId>,
    ending: Ending,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<
    (
        Option<Audited>,
        Option<Extension<Held>>,
        Json<wire::Released>,
    ),
    Failure,
> {
    let audited = Audited::new("force", "request", &external_id);
    let (released, audited) = match ending {
        Ending::Released { by } => {
            let (released, forced) = release(&lockhouse, &principal, external_id, by).await?;
            (released, forced.then_some(audited))
        }
        Ending::Forced { by } => {
            if principal.token().is_some() {
                must_force(&lockhouse, &principal, &external_id).await?;
            }
            let by = by.as_ref().map(Owner::as_str).or(principal.name());
            let released = lockhouse.force_release(&external_id, by).await?;
            (released, Some(audited))
        }
    };
    let request = wire::Request::from(&released.request);
    let audited = audited.map(|audited| {
        let owner = request.owner.clone();
        audited.with("owner", owner).with("released", released.now)
    });
    let held = released
        .request
        .created_at
        .duration_until(released.decided_at);
    let held = Duration::try_from(held).ok().filter(|_| released.now);
    let answer = wire::Released {
        released: released.now,
        decided_at: released.decided_at,
        request,
    };
    Ok((audited, held.map(Held).map(Extension), Json(answer)))
}

/// Releases. Returns whether that needed the grant `force`.
async fn release(
    lockhouse: &Lockhouse,
    principal: &Principal,
    external_id: ExternalId,
    by: Option<Owner>,
) -> Result<(Released, bool), Failure> {
    let own = principal
        .own(by.clone())
        .map_err(|invalid| invalid.on("by"))?;
    match release_as(lockhouse, external_id.clone(), own).await {
        Err(Error::Refused(Refusal::OfAnotherToken(_))) => {
            must_force(lockhouse, principal, &external_id).await?;
            Ok((release_as(lockhouse, external_id, by).await?, true))
        }
        released => Ok((released?, false)),
    }
}

/// Checks that `principal` has the right `force` on another token's request.
async fn must_force(
    lockhouse: &Lockhouse,
    principal: &Principal,
    external_id: &ExternalId,
) -> Result<(), Failure> {
    let request = lockhouse.find(external_id).await?;
    principal.must_on_each(&request, Verb::Force)
}
