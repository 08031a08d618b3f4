//! Finds the live requests that are due, without reading the others.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::store::Due;
use lockhouse_core::{ExternalId, Owner, OwnerSession, Request, SemaphoreName, Timestamp};

type ExternalIds = BTreeSet<ExternalId>;

/// Indexes of the live requests, one for each reason to end.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// For each semaphore, its requests with a TTL, by their expiry.
    expiring: BTreeMap<SemaphoreName, BTreeMap<Timestamp, ExternalIds>>,
    /// For each semaphore, its requests with an owner.
    owned: BTreeMap<SemaphoreName, BTreeMap<Owner, ExternalIds>>,
    /// All requests of each owner.
    of: BTreeMap<Owner, ExternalIds>,
    /// Sessions, by when they lapse.
    sessions: BTreeMap<Timestamp, BTreeSet<Owner>>,
}

impl Live {
    pub(super) fn add(&mut self, request: &Request) {
        let id = &request.external_id;
        for permit in &request.permits {
            if let Some(expires_at) = request.expires_at {
                let on = self.expiring.entry(permit.semaphore.clone()).or_default();
                on.entry(expires_at).or_default().insert(id.clone());
            }
            if let Some(owner) = &request.owner {
                let on = self.owned.entry(permit.semaphore.clone()).or_default();
                on.entry(owner.clone()).or_default().insert(id.clone());
            }
        }
        if let Some(owner) = &request.owner {
            self.of.entry(owner.clone()).or_default().insert(id.clone());
        }
    }

    /// Removes `request`. Call this before its TTL or state changes.
    pub(super) fn remove(&mut self, request: &Request) {
        let id = &request.external_id;
        for permit in &request.permits {
            if let (Some(expires_at), Some(on)) =
                (request.expires_at, self.expiring.get_mut(&permit.semaphore))
            {
                take(on, &expires_at, id);
            }
            if let (Some(owner), Some(on)) = (&request.owner, self.owned.get_mut(&permit.semaphore))
            {
                take(on, owner, id);
            }
        }
        if let Some(owner) = &request.owner {
            take(&mut self.of, owner, id);
        }
    }

    pub(super) fn add_session(&mut self, session: &OwnerSession) {
        let at = self.sessions.entry(session.expires_at).or_default();
        at.insert(session.owner.clone());
    }

    pub(super) fn remove_session(&mut self, session: &OwnerSession) {
        take(&mut self.sessions, &session.expires_at, &session.owner);
    }

    /// The ids of the requests that are due at `now`.
    pub(super) fn due(&self, which: Due<'_>, now: Timestamp) -> ExternalIds {
        match which {
            Due::OwnedBy(owner) => self.of.get(owner).cloned().unwrap_or_default(),
            Due::Lapsed { on: Some(on) } => on
                .iter()
                .flat_map(|name| self.lapsed_on(name, now))
                .collect(),
            Due::Lapsed { on: None } => {
                let expired = self.expiring.values().flat_map(|on| on.range(..=now));
                let expired = expired.flat_map(|(_, ids)| ids);
                let silent = self.silent(now).filter_map(|owner| self.of.get(owner));
                expired.chain(silent.flatten()).cloned().collect()
            }
        }
    }

    fn lapsed_on(&self, name: &SemaphoreName, now: Timestamp) -> ExternalIds {
        let expiring = self.expiring.get(name).into_iter();
        let expired = expiring.flat_map(|on| on.range(..=now));
        let mut ids: ExternalIds = expired.flat_map(|(_, ids)| ids).cloned().collect();
        if let Some(owned) = self.owned.get(name) {
            let silent = self.silent(now).filter_map(|owner| owned.get(owner));
            ids.extend(silent.flatten().cloned());
        }
        ids
    }

    fn silent(&self, now: Timestamp) -> impl Iterator<Item = &Owner> {
        self.sessions.range(..=now).flat_map(|(_, owners)| owners)
    }
}

/// Removes `value` from the set of `key`, and the set when it is empty.
fn take<K: Ord, V: Ord>(all: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = all.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            all.remove(key);
        }
    }
}
