//! Semaphores, and the history of their capacities.

use serde::{Deserialize, Serialize};

use crate::{Capacity, Line, Note, Origin, Owner, SemaphoreName, Slots, Timestamp};

/// A named pool of permits, as a store keeps it.
///
/// The row of a deleted semaphore stays, so that its fence goes on when the name is used again
/// (P7).
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SemaphoreRow {
    /// Its name.
    pub name: SemaphoreName,
    /// How many permits it has.
    pub capacity: Capacity,
    /// How many permits are held. After a resize below that number it is more than the capacity.
    pub in_use: u32,
    /// The last fence that a grant or a change of the capacity took. 0 before the first.
    pub fence: u64,
    /// When it was created, by the store's clock. Set again when a deleted semaphore is defined
    /// again.
    pub created_at: Timestamp,
    /// When its capacity was last set, by the store's clock.
    pub updated_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// The line of the processes that have waiters for it.
    pub line: Line,
    /// The template that created it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The slots that its live permits hold, if it is slotted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
}

impl SemaphoreRow {
    /// The row of a name that was never defined: deleted and empty. Stores that lock rows insert
    /// one before a definition locks it.
    pub fn undefined(name: SemaphoreName, now: Timestamp) -> Self {
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

    /// Whether callers see it: it is not deleted.
    pub fn exists(&self) -> bool {
        self.deleted_at.is_none()
    }

    /// Whether a template created it. A waiter that lacks room on a keyed semaphore holds up nobody
    /// on its other semaphores (P11).
    pub fn is_keyed(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether its permits have slots.
    pub fn is_slotted(&self) -> bool {
        self.slots.is_some()
    }

    /// How many permits could be granted now. Never below 0.
    ///
    /// After a shrink, a slot above the capacity counts as in use until its permit ends. So there
    /// are as many free slots, if the rows are consistent.
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
    pub semaphore: SemaphoreRow,
    /// How many calls of all processes wait for it.
    pub waiting: u32,
}

/// One change of a semaphore's capacity.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CapacityChange {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// The capacity before.
    pub old_capacity: Capacity,
    /// The capacity after.
    pub new_capacity: Capacity,
    /// The author of the change, if the caller named one.
    pub changed_by: Option<Owner>,
    /// Why it was changed, if the caller said so.
    pub note: Option<Note>,
    /// When it was changed, by the store's clock.
    pub changed_at: Timestamp,
}
