//! Permit requests: asks and grants.

use std::time::Duration;

use lockhouse_core::{
    Ask, Count, EndReason, ExternalId, Invalid, Owner, Priority, SemaphoreName, Slots, State,
    Timestamp, Ttl,
};
use serde::{Deserialize, Serialize};

use crate::number::perhaps_whole;
use crate::object::objects;

/// The longest wait of one call for room: 24 hours. A caller that wants to wait longer calls again.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The body of `PUT /v1/requests/{external_id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// The permits that are asked for.
    #[serde(deserialize_with = "objects")]
    pub permits: Vec<AskedPermit>,
    /// The owner of the permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How long the hold lasts unless renewed; without it, until released.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub ttl_ms: Option<i64>,
    /// How long to wait for room, at most 24 hours; without it, not at all.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub wait_ms: Option<i64>,
    /// The priority among waiters, -100 to 100; by default 0.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub priority: Option<i64>,
}

/// The permits that are asked for on one semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedPermit {
    /// The semaphore.
    pub semaphore: String,
    /// How many of its permits; by default 1.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub count: Option<i64>,
}

/// The body of `POST /v1/requests/{external_id}/renew`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The new TTL. Without it, the last one is used.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub ttl_ms: Option<i64>,
}

/// A granted request, live or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The idempotency key.
    pub external_id: String,
    /// `acquired` or `released`.
    pub state: String,
    /// Why it ended, once it has.
    pub end_reason: Option<String>,
    /// The owner, if the caller named one.
    pub owner: Option<String>,
    /// The permits that were granted, in byte order of the semaphores' names.
    pub permits: Vec<Grant>,
    /// The TTL that it was last given.
    pub ttl_ms: Option<u64>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was granted.
    pub created_at: Timestamp,
    /// When it ended, once it has.
    pub released_at: Option<Timestamp>,
    /// When its holder finished it in the holder's own transaction. From then on it is `released`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// The caller that ended it, if known.
    #[serde(default)]
    pub ended_by: Option<String>,
    /// The access token that made it, if a server asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The permits that a request holds on one semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The semaphore.
    pub semaphore: String,
    /// How many of its permits.
    pub count: u32,
    /// A number that rises with every grant on the semaphore.
    pub fence: u64,
    /// The slots, lowest first, if the semaphore is slotted.
    #[serde(default)]
    pub slots: Option<Vec<u32>>,
}

/// The result of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// Whether this call ended the request; if not, it had ended before.
    pub released: bool,
    /// When this was decided, by the store's clock.
    pub decided_at: Timestamp,
    /// The request after the call.
    #[serde(flatten)]
    pub request: Request,
}

/// A page of the list of live requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// The requests.
    pub requests: Vec<Request>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A page of the list of requests that hold permits of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// The requests.
    pub holders: Vec<Request>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Acquire {
    /// The body that asks for `ask` and waits at most `wait`, rounded up to a millisecond.
    pub fn of(ask: &Ask, wait: Duration) -> Self {
        let permits = ask.permits().map(|(semaphore, count)| AskedPermit {
            semaphore: semaphore.to_string(),
            count: Some(count.value().into()),
        });
        let wait_ms = wait.min(MAX_WAIT).as_nanos().div_ceil(1_000_000);
        Self {
            permits: permits.collect(),
            owner: ask.owner.as_ref().map(Owner::to_string),
            ttl_ms: ask.ttl.map(|ttl| ttl.as_ms().cast_signed()),
            // At most a day of milliseconds.
            wait_ms: Some(wait_ms as i64),
            // Omitted if 0, so that a server older than priorities accepts the ask.
            priority: Some(ask.priority.value().into()).filter(|priority| *priority != 0),
        }
    }

    /// The ask under `external_id`, and how long it waits.
    ///
    /// # Errors
    /// [`Invalid`] on the first field that is out of bounds.
    pub fn parse(self, external_id: ExternalId) -> Result<(Ask, Duration), Invalid> {
        let permits = self
            .permits
            .iter()
            .map(AskedPermit::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let mut ask = Ask::new(external_id, permits)?;
        ask.owner = self.owner.map(Owner::parse).transpose()?;
        ask.ttl = self.ttl_ms.map(Ttl::from_ms).transpose()?;
        ask.priority = Priority::new(self.priority.unwrap_or(0))?;
        Ok((ask, wait(self.wait_ms.unwrap_or(0))?))
    }
}

impl AskedPermit {
    fn parse(&self) -> Result<(SemaphoreName, Count), Invalid> {
        let count = self.count.map_or(Ok(Count::ONE), Count::new)?;
        Ok((SemaphoreName::parse(&self.semaphore)?, count))
    }
}

fn wait(ms: i64) -> Result<Duration, Invalid> {
    u64::try_from(ms)
        .ok()
        .map(Duration::from_millis)
        .filter(|wait| *wait <= MAX_WAIT)
        .ok_or_else(|| {
            let most = MAX_WAIT.as_millis();
            Invalid::new(
                "wait_ms",
                format!("is {ms}, it goes from 0 to {most} (24 hours)"),
            )
        })
}

impl From<&lockhouse_core::Request> for Request {
    fn from(request: &lockhouse_core::Request) -> Self {
        let permits = request.permits.iter().map(|permit| Grant {
            semaphore: permit.semaphore.to_string(),
            count: permit.count.value(),
            fence: permit.fence,
            slots: permit.slots.as_ref().map(|slots| slots.iter().collect()),
        });
        let state = request.seen_state();
        let (end_reason, released_at) = match state {
            State::Acquired => (None, None),
            State::Released { reason, at } => (Some(reason.to_string()), Some(at)),
        };
        Self {
            external_id: request.external_id.to_string(),
            state: state.as_str().to_owned(),
            end_reason,
            owner: owner(request.owner.as_ref()),
            permits: permits.collect(),
            ttl_ms: request.ttl.map(Ttl::as_ms),
            expires_at: request.expires_at,
            created_at: request.created_at,
            released_at,
            finished_at: request.finished_at,
            ended_by: request.ended_by.as_ref().map(by),
            token: token(request.owner.as_ref()),
        }
    }
}

/// The owner's name. `None` if a token named no owner.
pub(crate) fn owner(owner: Option<&Owner>) -> Option<String> {
    let name = owner?.name();
    (!name.is_empty()).then(|| name.to_owned())
}

fn token(owner: Option<&Owner>) -> Option<String> {
    owner?.token().map(str::to_owned)
}

/// The name of the caller, or else of its token.
fn by(by: &Owner) -> String {
    let name = Some(by.name()).filter(|name| !name.is_empty());
    name.or(by.token()).unwrap_or_default().to_owned()
}

impl TryFrom<Request> for lockhouse_core::Request {
    type Error = Invalid;

    fn try_from(request: Request) -> Result<Self, Invalid> {
        let state = request.state()?;
        let permits = request.permits.into_iter().map(|permit| {
            Ok(lockhouse_core::Grant {
                semaphore: SemaphoreName::parse(&permit.semaphore)?,
                count: Count::new(permit.count)?,
                fence: permit.fence,
                slots: permit.slots.map(Slots::of).transpose()?,
            })
        });
        Ok(Self {
            external_id: ExternalId::parse(&request.external_id)?,
            owner: request.owner.map(Owner::parse).transpose()?,
            state,
            permits: permits.collect::<Result<_, _>>()?,
            ttl: request.ttl_ms.map(Ttl::from_ms).transpose()?,
            expires_at: request.expires_at,
            finished_at: request.finished_at,
            created_at: request.created_at,
            ended_by: request.ended_by.map(Owner::parse).transpose()?,
        })
    }
}

impl Request {
    fn state(&self) -> Result<State, Invalid> {
        let reason = self.end_reason.as_deref().and_then(EndReason::parse);
        match (self.state.as_str(), reason, self.released_at) {
            ("acquired", None, None) => Ok(State::Acquired),
            ("released", Some(reason), Some(at)) => Ok(State::Released { reason, at }),
            _ => Err(Invalid::new(
                "state",
                "is not acquired, nor released with a known end_reason and a released_at",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
