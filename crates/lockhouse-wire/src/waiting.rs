//! The line of a semaphore.

use lockhouse_core::{
    Count, ExternalId, Invalid, Owner, Priority, SemaphoreName, Timestamp, store,
};
use serde::{Deserialize, Serialize};

/// A waiter of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The id of its ask.
    pub external_id: String,
    /// Its owner, if it has one.
    pub owner: Option<String>,
    /// How many permits of the semaphore it asks for.
    pub count: u32,
    /// Its priority.
    pub priority: i32,
    /// When it arrived.
    pub since: Timestamp,
    /// The semaphores that have too few free permits for it.
    pub lacks: Vec<String>,
}

/// The waiters of a semaphore, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The waiters.
    pub waiting: Vec<Waiter>,
}

impl From<&store::Waiter> for Waiter {
    fn from(waiter: &store::Waiter) -> Self {
        Self {
            external_id: waiter.external_id.to_string(),
            owner: super::requests::owner(waiter.owner.as_ref()),
            count: waiter.count.value(),
            priority: waiter.priority.value(),
            since: waiter.since,
            lacks: waiter.lacks.iter().map(SemaphoreName::to_string).collect(),
        }
    }
}

impl TryFrom<Waiter> for store::Waiter {
    type Error = Invalid;

    fn try_from(waiter: Waiter) -> Result<Self, Invalid> {
        let lacks = waiter.lacks.iter().map(SemaphoreName::parse);
        Ok(Self {
            external_id: ExternalId::parse(waiter.external_id)?,
            owner: waiter.owner.map(Owner::parse).transpose()?,
            count: Count::new(waiter.count)?,
            priority: Priority::new(waiter.priority)?,
            since: waiter.since,
            lacks: lacks.collect::<Result<_, _>>()?,
        })
    }
}
