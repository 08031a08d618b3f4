//! The rows that a store loads, and the changes that it must save.

use std::collections::BTreeMap;

use crate::{
    CapacityChange, EndReason, ExternalId, Outcome, Owner, OwnerSession, ProcessId, Request,
    SemaphoreName, SemaphoreRow, State, Template, Timestamp, Ttl,
};

/// The rows that a store has locked and read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The store's clock, read after the locks were held (P8).
    pub now: Timestamp,
    /// The semaphores of the footprint that have a row, including deleted ones.
    pub semaphores: BTreeMap<SemaphoreName, SemaphoreRow>,
    /// The requests of the footprint that have a row, including ended ones.
    pub requests: BTreeMap<ExternalId, Request>,
    /// The sessions of the footprint's owners that have a row, including lapsed ones.
    pub owners: BTreeMap<Owner, OwnerSession>,
    /// All templates, if the footprint asks for them.
    pub templates: Vec<Template>,
}

/// The result of [`decide`](crate::decide()): the answers, and the changes to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// One outcome for each command, in their order.
    pub outcomes: Vec<Outcome>,
    /// The changes to save before any answer is sent.
    pub changes: Changes,
}

/// The changes to save in one commit, each list in byte order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Semaphores to write as they are here. A semaphore that was not loaded has no row yet.
    pub semaphores: Vec<SemaphoreRow>,
    /// Requests to insert, with their permits. A later command of the batch may have ended some of them.
    pub granted: Vec<Request>,
    /// Requests that were renewed.
    pub renewed: Vec<Renewed>,
    /// Requests to end, with their permits. Save these after the renewals: a request may be in both
    /// lists.
    pub ended: Vec<Ended>,
    /// Rows to add to the history of capacities, in order.
    pub capacity_changes: Vec<CapacityChange>,
    /// Sessions of owners to write as they are here, whether they have a row or not.
    pub heartbeats: Vec<OwnerSession>,
    /// Owners whose sessions to delete, whether they have a row or not.
    pub goodbyes: Vec<Owner>,
    /// Semaphores about which to [notify](crate::store::Notification) waiters at other processes. They are not saved.
    pub freed: Vec<Freed>,
}

impl Changes {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A semaphore whose permits became free or are left to the first in its line, or that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// The process that the free permits are left to, if one stands in the semaphore's [line](crate::Line).
    pub left_to: Option<ProcessId>,
}

/// A request that was renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The request.
    pub external_id: ExternalId,
    /// Its new TTL.
    pub ttl: Ttl,
    /// When it expires now.
    pub expires_at: Timestamp,
}

impl Renewed {
    /// Makes this change to the row of `request`.
    pub fn apply(&self, request: &mut Request) {
        request.ttl = Some(self.ttl);
        request.expires_at = Some(self.expires_at);
    }
}

/// A request that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub external_id: ExternalId,
    /// Why it ended.
    pub reason: EndReason,
    /// When it ended, by the store's clock.
    pub at: Timestamp,
    /// The caller that asked for its end.
    pub by: Option<Owner>,
}

impl Ended {
    /// Makes this change to the row of `request`.
    pub fn apply(&self, request: &mut Request) {
        request.ended_by = self.by.clone();
        request.state = State::Released {
            reason: self.reason,
            at: self.at,
        };
    }
}
