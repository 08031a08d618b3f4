//! The tables of a store, which load the input of `decide` and save its changes.
//!
//! They save as SQL would. Semaphores are written by name. A request's insert fails if the id exists. An update of a request
//! that is not live touches no row, and neither does the deletion of a missing session. A failed save leaves no trace.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::{
    CapacityChange, Changes, Command, ExternalId, Footprint, Loaded, Owner, OwnerSession, Request,
    SemaphoreName, SemaphoreRow, State, Template, Timestamp,
};

/// The committed rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) semaphores: BTreeMap<SemaphoreName, SemaphoreRow>,
    pub(crate) requests: BTreeMap<ExternalId, Request>,
    pub(crate) capacity_changes: Vec<CapacityChange>,
    pub(crate) owners: BTreeMap<Owner, OwnerSession>,
    pub(crate) templates: Vec<Template>,
}

impl Rows {
    /// Loads only the rows that `commands` touch.
    pub(crate) fn load(&self, now: Timestamp, commands: &[Command]) -> Loaded {
        let mut footprint = Footprint::of(commands, []);
        let first = self.select(now, &footprint);
        if !footprint.grow(commands, &first) {
            return first;
        }
        let again = self.select(now, &footprint);
        assert!(!footprint.grow(commands, &again), "a footprint grows once");
        again
    }

    fn select(&self, now: Timestamp, footprint: &Footprint) -> Loaded {
        let mut semaphores = self.semaphores.clone();
        let read: BTreeSet<_> = footprint.semaphores_to_read().collect();
        semaphores.retain(|name, _| read.contains(name));
        let mut requests = self.requests.clone();
        requests.retain(|id, _| footprint.requests.contains(id));
        let mut owners = self.owners.clone();
        owners.retain(|owner, _| footprint.owners.contains(owner));
        Loaded {
            now,
            semaphores,
            requests,
            owners,
            templates: match footprint.templates {
                true => self.templates.clone(),
                false => Vec::new(),
            },
        }
    }

    /// The effect of a holder's *finish* statement: nothing unless the request is held.
    pub(crate) fn finish(&mut self, now: Timestamp, id: &ExternalId) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let session = request
            .owner
            .as_ref()
            .and_then(|owner| self.owners.get(owner));
        let is_silent = session.is_some_and(|session| session.expires_at <= now);
        let is_past = request.expires_at.is_some_and(|at| at <= now);
        let is_held = request.finished_at.is_none() && !is_past && !is_silent;
        if let Some(request) = self.live(id).filter(|_| is_held) {
            request.finished_at = Some(now);
            request.expires_at = Some(now);
        }
    }

    /// Saves all of `changes`, or none. Then the error is the id whose insert failed.
    pub(crate) fn save(&mut self, changes: &Changes) -> Result<(), ExternalId> {
        let mut after = self.clone();
        for semaphore in &changes.semaphores {
            let name = semaphore.name.clone();
            after.semaphores.insert(name, semaphore.clone());
        }
        for request in &changes.granted {
            let id = &request.external_id;
            if after.requests.insert(id.clone(), request.clone()).is_some() {
                return Err(id.clone());
            }
        }
        for renewed in &changes.renewed {
            if let Some(request) = after.live(&renewed.external_id) {
                request.ttl = Some(renewed.ttl);
                request.expires_at = Some(renewed.expires_at);
            }
        }
        for ended in &changes.ended {
            if let Some(request) = after.live(&ended.external_id) {
                let (reason, at) = (ended.reason, ended.at);
                request.state = State::Released { reason, at };
                request.ended_by = ended.by.clone();
            }
        }
        after
            .capacity_changes
            .extend(changes.capacity_changes.iter().cloned());
        for session in &changes.heartbeats {
            after.owners.insert(session.owner.clone(), session.clone());
        }
        for owner in &changes.goodbyes {
            after.owners.remove(owner);
        }
        *self = after;
        Ok(())
    }

    fn live(&mut self, id: &ExternalId) -> Option<&mut Request> {
        self.requests
            .get_mut(id)
            .filter(|request| request.state == State::Acquired)
    }
}
