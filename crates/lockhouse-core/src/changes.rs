//! What a store loads, and what it must save.

use std::collections::BTreeMap;

use crate::{
    CapacityChange, EndReason, ExternalId, Outcome, Owner, OwnerSession, ProcessId, Request,
    Semaphore, SemaphoreName, State, Template, Timestamp, Ttl,
};

/// What a store has locked and read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The store's clock, read after the locks were held (P8).
    pub now: Timestamp,
    /// The semaphores of the footprint that there are, deleted ones too.
    pub semaphores: BTreeMap<SemaphoreName, Semaphore>,
    /// The requests of the footprint that there are, ended ones too.
    pub requests: BTreeMap<ExternalId, Request>,
    /// The sessions of the footprint's owners that there are, lapsed ones too.
    pub owners: BTreeMap<Owner, OwnerSession>,
    /// All templates, if the footprint asks for them.
    pub templates: Vec<Template>,
}

/// What to answer and what to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// One answer a command, in their order.
    pub outcomes: Vec<Outcome>,
    /// What to save before any answer is given.
    pub changes: Changes,
}

/// What to save, in one commit, each list in byte order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Semaphores to write as they are here. One that was not loaded has no row yet.
    pub semaphores: Vec<Semaphore>,
    /// Requests to insert, with their permits. Some may have ended already.
    pub granted: Vec<Request>,
    /// Requests whose expiry was pushed.
    pub renewed: Vec<Renewed>,
    /// Requests to end, with their permits, after they were renewed: one may be in both lists.
    pub ended: Vec<Ended>,
    /// Rows to add to the audit, in the order in which they were made.
    pub capacity_changes: Vec<CapacityChange>,
    /// Sessions of owners to write as they are here, whether there was one or not.
    pub heartbeats: Vec<OwnerSession>,
    /// Owners whose sessions to delete, whether there was one or not.
    pub goodbyes: Vec<Owner>,
    /// Nothing to write: those of the semaphores that waiters at other processes may want to look at.
    pub freed: Vec<Freed>,
}

impl Changes {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A semaphore of which permits came free or are left to the first in its line; or that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The semaphore.
    pub semaphore: SemaphoreName,
    /// The process that the free permits are left to, if its [line](crate::Line) has one.
    pub left_to: Option<ProcessId>,
}

/// A request whose expiry was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The request.
    pub external_id: ExternalId,
    /// Its new time to live.
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
    /// Why.
    pub reason: EndReason,
    /// When.
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
