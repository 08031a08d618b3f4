//! Requests: what was granted, and how it ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Count, ExternalId, Owner, SemaphoreName, Slots, Timestamp, Ttl};

/// A granted ask, live or ended. An ask that was refused leaves no request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Request {
    /// The idempotency key.
    pub external_id: ExternalId,
    /// Who holds, if they said.
    pub owner: Option<Owner>,
    /// Live or ended.
    pub state: State,
    /// What was granted, in byte order of the semaphores' names.
    pub permits: Vec<Grant>,
    /// The time to live that it was last given.
    pub ttl: Option<Ttl>,
    /// When it expires, by the store's clock.
    pub expires_at: Option<Timestamp>,
    /// When its holder finished it in a transaction of its own, by the store's clock. Such a request is over, though it is
    /// live until a command ends it as [`Released`](EndReason::Released).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// When it was granted, by the store's clock.
    pub created_at: Timestamp,
    /// The caller that asked for its end, if it was released or ended by force and the caller said so.
    pub ended_by: Option<Owner>,
}

impl Request {
    /// Whether it still counts against its semaphores.
    pub fn is_live(&self) -> bool {
        self.state == State::Acquired
    }

    /// Why it is over at `now`, if it is live and still to be ended, swept or not: its holder finished it, or its time has
    /// passed (P4).
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

/// What a request holds on one semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Grant {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// How many of its permits.
    pub count: Count,
    /// A number that rises with every grant on the semaphore (P7).
    pub fence: u64,
    /// If the semaphore is slotted: as many slots as the count, which nobody else holds until this ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
}

/// Live, then ended. Never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Held.
    Acquired,
    /// Ended, and its permits are back.
    Released {
        /// Why.
        reason: EndReason,
        /// When, by the store's clock.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its holder gave it back.
    Released,
    /// Its time to live passed.
    Expired,
    /// Its owner is gone.
    OwnerDead,
    /// It was held too long without a time to live.
    Stale,
    /// An operator ended it.
    Forced,
}

impl EndReason {
    /// All of them.
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
