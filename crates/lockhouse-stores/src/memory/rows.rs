//! The rows of a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use lockhouse_core::store::{Cursor, Due, Held, Holders, Page, Purge, Stale};
use lockhouse_core::{
    CapacityChange, Changes, Epoch, ExternalId, Footprint, Loaded, Owner, OwnerSession, Pattern,
    Recounted, Request, SemaphoreName, SemaphoreRow, Template, Timestamp,
};

use super::due::Live;
use super::grant_order::GrantOrder;
use crate::time::before;

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) semaphores: BTreeMap<SemaphoreName, SemaphoreRow>,
    pub(super) requests: BTreeMap<ExternalId, Request>,
    pub(super) capacity_changes: Vec<CapacityChange>,
    pub(super) owners: BTreeMap<Owner, OwnerSession>,
    pub(super) templates: BTreeMap<Pattern, Template>,
    live: Live,
    order: GrantOrder,
}

impl Rows {
    pub(super) fn load(&self, footprint: &Footprint, now: Timestamp) -> Loaded {
        let semaphores = footprint
            .semaphores_to_read()
            .filter_map(|name| self.semaphores.get(&name));
        let owners = footprint
            .owners
            .iter()
            .filter_map(|owner| self.owners.get(owner));
        let requests = footprint
            .requests
            .iter()
            .filter_map(|id| self.requests.get(id));
        Loaded {
            now,
            semaphores: semaphores
                .map(|row| (row.name.clone(), row.clone()))
                .collect(),
            owners: owners.map(|row| (row.owner.clone(), row.clone())).collect(),
            requests: requests
                .map(|row| (row.external_id.clone(), row.clone()))
                .collect(),
            templates: match footprint.templates {
                true => self.templates.values().cloned().collect(),
                false => Vec::new(),
            },
        }
    }

    pub(super) fn save(&mut self, changes: Changes) {
        for semaphore in changes.semaphores {
            self.semaphores.insert(semaphore.name.clone(), semaphore);
        }
        for request in changes.granted {
            if request.is_live() {
                self.live.add(&request);
                self.order.add(&request);
            }
            self.requests.insert(request.external_id.clone(), request);
        }
        for renewed in changes.renewed {
            if let Some(request) = self.requests.get_mut(&renewed.external_id) {
                self.live.remove(request);
                renewed.apply(request);
                self.live.add(request);
            }
        }
        for ended in changes.ended {
            if let Some(request) = self.requests.get_mut(&ended.external_id) {
                self.live.remove(request);
                self.order.remove(request);
                ended.apply(request);
            }
        }
        self.capacity_changes.extend(changes.capacity_changes);
        for session in changes.heartbeats {
            self.live.add_session(&session);
            if let Some(was) = self.owners.insert(session.owner.clone(), session.clone())
                && was.expires_at != session.expires_at
            {
                self.live.remove_session(&was);
            }
        }
        for owner in changes.goodbyes {
            if let Some(was) = self.owners.remove(&owner) {
                self.live.remove_session(&was);
            }
        }
    }

    /// A page of the live requests, from the oldest on.
    pub(super) fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Held {
        let (ids, next) = self.order.page(of, page, |id| {
            let request = self.requests.get(id);
            request.is_some_and(|request| of.include(request))
        });
        let requests = ids.into_iter().filter_map(|id| self.requests.get(id));
        Held {
            requests: requests.cloned().collect(),
            next,
        }
    }

    /// At most `limit` live requests that are due at `now`.
    pub(super) fn due(&self, which: Due<'_>, limit: usize, now: Timestamp) -> Vec<Request> {
        let due = self.live.due(which, now);
        let due = due.iter().filter_map(|id| self.requests.get(id));
        due.take(limit).cloned().collect()
    }

    pub(super) fn stale(&self, age: Duration, page: &Page<Timestamp>, now: Timestamp) -> Stale {
        let Some(last) = (page.limit as usize).checked_sub(1) else {
            return Stale::default();
        };
        let cutoff = before(now, age);
        let after = page.after.unwrap_or(Timestamp::MIN);
        let of_age = |request: &&Request| {
            let made = request.created_at;
            request.is_live() && request.ttl.is_none() && after < made && made <= cutoff
        };
        let mut requests: Vec<_> = self.requests.values().filter(of_age).cloned().collect();
        let mut made: Vec<_> = requests.iter().map(|request| request.created_at).collect();
        made.sort_unstable();
        let looked_to = made.get(last).copied();
        requests.retain(|request| {
            let session = request
                .owner
                .as_ref()
                .and_then(|owner| self.owners.get(owner));
            session.is_none_or(|session| session.expires_at <= now)
                && looked_to.is_none_or(|to| request.created_at <= to)
        });
        Stale {
            requests,
            looked_to,
        }
    }

    pub(super) fn purge(&mut self, what: Purge, limit: usize, now: Timestamp) -> u64 {
        let mut left = limit;
        let mut gone = |may_go: bool| {
            let goes = may_go && left > 0;
            left -= usize::from(goes);
            goes
        };
        match what {
            Purge::Requests { age } => {
                let cutoff = before(now, age);
                self.requests
                    .retain(|_, row| !gone(row.released_at().is_some_and(|at| at <= cutoff)));
            }
            Purge::CapacityChanges { age } => {
                let cutoff = before(now, age);
                self.capacity_changes
                    .retain(|row| !gone(row.changed_at <= cutoff));
            }
            Purge::Sessions { age } => {
                let cutoff = before(now, age);
                let live = self.requests.values().filter(|request| request.is_live());
                let holding: BTreeSet<_> = live.filter_map(|r| r.owner.clone()).collect();
                self.owners.retain(|owner, row| {
                    let goes = gone(row.expires_at <= cutoff && !holding.contains(owner));
                    if goes {
                        self.live.remove_session(row);
                    }
                    !goes
                });
            }
            Purge::Semaphores { age } => {
                let cutoff = before(now, age);
                let is_past = |row: &Request| row.released_at().is_some_and(|at| at <= cutoff);
                if self.requests.values().any(is_past) {
                    return 0;
                }
                let epoch = Epoch::semaphore();
                let mut last_fence = 0;
                self.semaphores.retain(|name, row| {
                    let is_deleted = row.deleted_at.is_some_and(|at| at <= cutoff);
                    let goes = gone(is_deleted && *name != epoch);
                    if goes {
                        last_fence = last_fence.max(row.fence);
                    }
                    !goes
                });
                let undefined = || SemaphoreRow::undefined(epoch.clone(), now);
                let row = self
                    .semaphores
                    .entry(epoch.clone())
                    .or_insert_with(undefined);
                row.fence = row.fence.max(last_fence);
            }
        }
        (limit - left) as u64
    }

    pub(super) fn recounted(&self, semaphore: &SemaphoreRow) -> Recounted {
        let mut fences = BTreeSet::new();
        let mut recounted = Recounted::without_permits(semaphore.clone());
        for request in self.requests.values() {
            let mut permits = request.permits.iter();
            if let Some(permit) = permits.find(|permit| permit.semaphore == semaphore.name) {
                if request.is_live() {
                    recounted.add_live(permit);
                }
                recounted.last_fence = recounted.last_fence.max(permit.fence);
                recounted.repeated_fences += u64::from(!fences.insert(permit.fence));
            }
        }
        recounted
    }
}

pub(super) fn after<K: Clone>(page: &Page<K>) -> Bound<K> {
    page.after.clone().map_or(Bound::Unbounded, Bound::Excluded)
}
