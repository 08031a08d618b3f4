//! Semaphores and the audit of their capacities.

use serde::{Deserialize, Serialize};

use crate::{Capacity, Line, Note, Origin, Owner, SemaphoreName, Slots, Timestamp};

/// A named pool of permits, as a store keeps it.
///
/// A deleted semaphore stays, so that its fence goes on when the name comes back (P7). A name that
/// was only just made ready for its first definition looks the same: deleted, with nothing in it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Semaphore {
    /// Its name.
    pub name: SemaphoreName,
    /// How many permits it has.
    pub capacity: Capacity,
    /// How many of them are held. More than the capacity after a resize below what was held.
    pub in_use: u32,
    /// The last fence that was taken: by a grant, or by a change of the capacity. 0 before the
    /// first.
    pub fence: u64,
    /// When it was first defined, by the store's clock; anew when it comes back.
    pub created_at: Timestamp,
    /// When its capacity was last set, by the store's clock.
    pub updated_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// The processes whose callers wait for it.
    pub line: Line,
    /// The template that made it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The slots that its live permits hold, if it is slotted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
}

impl Semaphore {
    /// A name that was never defined, as a row: deleted, with nothing in it. Stores that lock rows make one ready before a definition
    /// locks it.
    pub fn made_ready(name: SemaphoreName, now: Timestamp) -> Self {
        Self {
            name,
            capacity: Capacity::CLOSED,
            in_use: 0,
            fence: 0,
            created_at: now,
            updated_at: now,
            deleted_at: Some(now),
            line: Line::default(),
            origin: None,
            slots: None,
        }
    }

    /// Whether it is there for callers.
    pub fn exists(&self) -> bool {
        self.deleted_at.is_none()
    }

    /// Whether it is one of many that a template made, one for each key. A waiter that it has no room for holds up
    /// nobody on other semaphores (P11).
    pub fn is_keyed(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether its permits have slots.
    pub fn is_slotted(&self) -> bool {
        self.slots.is_some()
    }

    /// How many permits could be granted now. Never below 0.
    ///
    /// A slot above the capacity, which a shrink left, counts against the capacity until its permit ends. So where the
    /// rows agree, there are as many free slots.
    pub fn available(&self) -> u32 {
        let room = self.capacity.value().saturating_sub(self.in_use);
        match &self.slots {
            None => room,
            Some(taken) => room.min(taken.free(self.capacity)),
        }
    }
}

/// A semaphore, and how many calls wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreStatus {
    /// The semaphore as the store has it.
    pub semaphore: Semaphore,
    /// How many calls wait for it, at all processes.
    pub waiting: u32,
}

/// One change of a semaphore's capacity.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CapacityChange {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// What it was.
    pub old_capacity: Capacity,
    /// What it became.
    pub new_capacity: Capacity,
    /// Who changed it, if they said.
    pub changed_by: Option<Owner>,
    /// Why, if they said.
    pub note: Option<Note>,
    /// When, by the store's clock.
    pub changed_at: Timestamp,
}
