//! Requests: granted asks, and how they ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Count, ExternalId, Owner, SemaphoreName, Slots, Timestamp, Ttl};

/// A granted ask, live or ended. An ask that was refused leaves no request.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Request {
    /// The idempotency key.
    pub external_id: ExternalId,
    /// The owner, if the caller named one.
    pub owner: Option<Owner>,
    /// Live or ended.
    pub state: State,
    /// The permits that were granted, in byte order of the semaphores' names.
    pub permits: Vec<Grant>,
    /// The TTL that it was last given.
    pub ttl: Option<Ttl>,
    /// When it expires, by the store's clock.
    pub expires_at: Option<Timestamp>,
    /// When its holder finished it in the holder's own transaction, by the store's clock. Its state
    /// stays live until a command ends it as [`Released`](EndReason::Released), but it holds
    /// nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// When it was granted, by the store's clock.
    pub created_at: Timestamp,
    /// The caller that asked for its end, if it was released or ended by force and the caller said so.
    pub ended_by: Option<Owner>,
}

impl Request {
    /// Whether the request still counts in its semaphores' `in_use`.
    pub fn is_live(&self) -> bool {
        self.state == State::Acquired
    }

    /// Whether it holds only Lockhouse's own semaphores. Callers cannot see, renew or end such a
    /// request.
    pub fn is_reserved(&self) -> bool {
        let mut permits = self.permits.iter();
        permits.all(|permit| permit.semaphore.is_reserved())
    }

    /// Whether its state, its end and its permits contradict each other (P3).
    pub fn is_torn(&self) -> bool {
        self.permits.is_empty() || (self.is_live() && self.ended_by.is_some())
    }

    /// Why a live request has lapsed at `now`, though no command has ended it yet: its holder
    /// finished it, or its TTL has passed (P4).
    pub fn lapse(&self, now: Timestamp) -> Option<EndReason> {
        let has_passed = |expires_at| expires_at <= now;
        match self.state {
            State::Released { .. } => None,
            State::Acquired if self.finished_at.is_some() => Some(EndReason::Released),
            State::Acquired if self.expires_at.is_some_and(has_passed) => Some(EndReason::Expired),
            State::Acquired => None,
        }
    }

    /// The state that readers see. A request that its holder finished is released from that time on, also before a command
    /// has ended it.
    pub fn seen_state(&self) -> State {
        let reason = EndReason::Released;
        match self.finished_at {
            Some(at) if self.end_reason().is_none_or(|ended| ended == reason) => {
                State::Released { reason, at }
            }
            _ => self.state,
        }
    }

    /// Why it ended, if it has.
    pub fn end_reason(&self) -> Option<EndReason> {
        match self.state {
            State::Acquired => None,
            State::Released { reason, .. } => Some(reason),
        }
    }

    /// When it ended, if it has.
    pub fn released_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Acquired => None,
            State::Released { at, .. } => Some(at),
        }
    }
}

/// The permits that a request holds on one semaphore.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Grant {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// How many of its permits.
    pub count: Count,
    /// A number that rises with every grant on the semaphore (P7).
    pub fence: u64,
    /// If the semaphore is slotted: as many slots as the count. No other live permit holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
}

/// The state of a request: live, then ended. It never becomes live again.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The request holds its permits.
    Acquired,
    /// The request has ended, and its permits are free.
    Released {
        /// Why it ended.
        reason: EndReason,
        /// When it ended, by the store's clock.
        at: Timestamp,
    },
}

impl State {
    /// The word that the HTTP API uses.
    pub const fn as_str(&self) -> &'static str {
        match self {
            State::Acquired => "acquired",
            State::Released { .. } => "released",
        }
    }
}

/// Why a request ended.
///
/// ```
/// use lockhouse_core::EndReason;
///
/// for reason in EndReason::ALL {
///     assert_eq!(EndReason::parse(reason.as_str()), Some(reason));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its holder released it.
    Released,
    /// Its TTL passed.
    Expired,
    /// Its owner's session lapsed, or a check found the owner gone.
    OwnerDead,
    /// It was held too long without a TTL.
    Stale,
    /// An operator ended it by force.
    Forced,
}

impl EndReason {
    /// All end reasons.
    pub const ALL: [EndReason; 5] = [
        EndReason::Released,
        EndReason::Expired,
        EndReason::OwnerDead,
        EndReason::Stale,
        EndReason::Forced,
    ];

    /// The word that stores and the HTTP API use.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndReason::Released => "released",
            EndReason::Expired => "expired",
            EndReason::OwnerDead => "owner_dead",
            EndReason::Stale => "stale",
            EndReason::Forced => "forced",
        }
    }

    /// The reason that `text` spells.
    pub fn parse(text: &str) -> Option<EndReason> {
        EndReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
