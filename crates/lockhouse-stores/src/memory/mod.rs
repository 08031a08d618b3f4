//! A store in this process's memory: for tests, and for trying things out. It forgets on exit.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lockhouse_core::store::{Batch, Error, Page, Store};
use lockhouse_core::{
    CapacityChange, Changes, Command, ExternalId, Footprint, Loaded, Outcome, Request, Semaphore,
    SemaphoreName, State, Timestamp, decide,
};

/// Keeps permits in this process's memory. One mutex is its lock, this machine's clock its clock.
#[derive(Debug, Default)]
pub struct Memory {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    semaphores: BTreeMap<SemaphoreName, Semaphore>,
    requests: BTreeMap<ExternalId, Request>,
    capacity_changes: Vec<CapacityChange>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows. They are written only after everything that could panic, so a poisoned lock
    /// guards whole rows still.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for Memory {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let mut rows = self.rows();
        let now = Timestamp::now();
        let mut footprint = batch.footprint.clone();
        let mut loaded = rows.load(&footprint, now);
        if footprint.grow(&loaded) {
            loaded = rows.load(&footprint, now);
        }
        make_ready(&batch.commands, &mut loaded);
        let decision = decide(loaded, &batch.commands);
        rows.save(decision.changes);
        Ok(decision.outcomes)
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        Ok(self
            .rows()
            .semaphores
            .get(name)
            .filter(|semaphore| semaphore.exists())
            .cloned())
    }

    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        let rows = self.rows();
        let rest = rows.semaphores.range((after(page), Bound::Unbounded));
        let existing = rest
            .map(|(_, semaphore)| semaphore)
            .filter(|semaphore| semaphore.exists());
        Ok(existing.take(page.limit as usize).cloned().collect())
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        Ok(self.rows().requests.get(external_id).cloned())
    }

    async fn holders(
        &self,
        on: Option<&SemaphoreName>,
        page: &Page<ExternalId>,
    ) -> Result<Vec<Request>, Error> {
        let rows = self.rows();
        let rest = rows.requests.range((after(page), Bound::Unbounded));
        let holding = rest.map(|(_, request)| request).filter(|request| {
            let on_it = |name: &SemaphoreName| {
                request
                    .permits
                    .iter()
                    .any(|permit| permit.semaphore == *name)
            };
            request.is_live() && on.is_none_or(on_it)
        });
        Ok(holding.take(page.limit as usize).cloned().collect())
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let rows = self.rows();
        let newest_first = rows.capacity_changes.iter().rev();
        let of_it = newest_first.filter(|change| change.semaphore == *name);
        Ok(of_it.take(limit as usize).cloned().collect())
    }

    async fn migrate(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn ready(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Rows {
    fn load(&self, footprint: &Footprint, now: Timestamp) -> Loaded {
        let semaphores = footprint
            .semaphores
            .iter()
            .filter_map(|name| self.semaphores.get(name));
        let requests = footprint
            .requests
            .iter()
            .filter_map(|id| self.requests.get(id));
        Loaded {
            now,
            semaphores: semaphores
                .map(|row| (row.name.clone(), row.clone()))
                .collect(),
            requests: requests
                .map(|row| (row.external_id.clone(), row.clone()))
                .collect(),
        }
    }

    fn save(&mut self, changes: Changes) {
        for semaphore in changes.semaphores {
            self.semaphores.insert(semaphore.name.clone(), semaphore);
        }
        for request in changes.granted {
            self.requests.insert(request.external_id.clone(), request);
        }
        for renewed in changes.renewed {
            if let Some(request) = self.requests.get_mut(&renewed.external_id) {
                request.ttl = Some(renewed.ttl);
                request.expires_at = Some(renewed.expires_at);
            }
        }
        for ended in changes.ended {
            if let Some(request) = self.requests.get_mut(&ended.external_id) {
                request.state = State::Released {
                    reason: ended.reason,
                    at: ended.at,
                };
            }
        }
        self.capacity_changes.extend(changes.capacity_changes);
    }
}

/// Makes the names that `commands` define ready, where they are not there yet.
fn make_ready(commands: &[Command], loaded: &mut Loaded) {
    for command in commands {
        if let Command::Define { name, .. } = command {
            loaded
                .semaphores
                .entry(name.clone())
                .or_insert_with(|| Semaphore::made_ready(name.clone(), loaded.now));
        }
    }
}

fn after<K: Clone>(page: &Page<K>) -> Bound<K> {
    page.after.clone().map_or(Bound::Unbounded, Bound::Excluded)
}
