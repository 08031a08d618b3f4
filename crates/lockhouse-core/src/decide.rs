//! Every rule of who gets permits, in one pure function.
//!
//! A store locks and loads a footprint, calls [`decide`], saves the [`Changes`] and commits. The
//! commands are decided one after the other on the same state, so a later one sees what an earlier
//! one did, and one that is refused leaves the state as it was.
//!
//! A request whose time has passed is ended as `expired` by whichever command touches it first:
//! swept or not, it can't be renewed, released or granted again (P4).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Ask, Capacity, CapacityChange, Command, EndReason, ExternalId, Note, Outcome, Owner, Permit,
    Refusal, Reply, Request, Semaphore, SemaphoreName, State, Timestamp, Ttl,
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
    /// Semaphores to write as they are here. Each is in what was loaded.
    pub semaphores: Vec<Semaphore>,
    /// Requests to insert, with their permits. Some may have ended already.
    pub granted: Vec<Request>,
    /// Requests whose expiry was pushed.
    pub renewed: Vec<Renewed>,
    /// Requests to end, with their permits, after they were renewed: one may be in both lists.
    pub ended: Vec<Ended>,
    /// Rows to add to the audit, in the order in which they were made.
    pub capacity_changes: Vec<CapacityChange>,
}

impl Changes {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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

/// A request that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub external_id: ExternalId,
    /// Why.
    pub reason: EndReason,
    /// When.
    pub at: Timestamp,
}

/// Decides `commands`, one after the other, on what was loaded.
///
/// The semaphores of every live request in `loaded` must be loaded too, and every semaphore that
/// a [`Command::Define`] names must have been made ready
/// ([`Semaphore::made_ready`]); see [`Footprint`](crate::Footprint). What a command names and is
/// not loaded does not exist.
pub fn decide(loaded: Loaded, commands: &[Command]) -> Decision {
    let mut scene = Scene::new(loaded);
    let outcomes = commands.iter().map(|command| scene.run(command)).collect();
    Decision {
        outcomes,
        changes: scene.changes(),
    }
}

/// The state as the commands so far have left it, and which parts they touched.
struct Scene {
    now: Timestamp,
    semaphores: BTreeMap<SemaphoreName, Semaphore>,
    requests: BTreeMap<ExternalId, Request>,
    written: BTreeSet<SemaphoreName>,
    granted: BTreeSet<ExternalId>,
    renewed: BTreeSet<ExternalId>,
    ended: BTreeSet<ExternalId>,
    capacity_changes: Vec<CapacityChange>,
}

impl Scene {
    fn new(loaded: Loaded) -> Self {
        Self {
            now: loaded.now,
            semaphores: loaded.semaphores,
            requests: loaded.requests,
            written: BTreeSet::new(),
            granted: BTreeSet::new(),
            renewed: BTreeSet::new(),
            ended: BTreeSet::new(),
            capacity_changes: Vec::new(),
        }
    }

    fn run(&mut self, command: &Command) -> Outcome {
        let expired_now = command
            .external_id()
            .is_some_and(|id| self.end_if_expired(id));
        match command {
            Command::Define {
                name,
                capacity,
                must_exist,
                changed_by,
                note,
            } => self.define(
                name,
                *capacity,
                *must_exist,
                changed_by.as_ref(),
                note.as_ref(),
            ),
            Command::Delete { name } => self.delete(name),
            Command::Acquire(ask) => self.acquire(ask),
            Command::Renew { external_id, ttl } => self.renew(external_id, *ttl),
            Command::End {
                external_id,
                reason,
            } => self.end_by(external_id, *reason, expired_now),
        }
    }

    fn define(
        &mut self,
        name: &SemaphoreName,
        capacity: Capacity,
        must_exist: bool,
        changed_by: Option<&Owner>,
        note: Option<&Note>,
    ) -> Outcome {
        let now = self.now;
        let semaphore = self
            .semaphores
            .get_mut(name)
            .filter(|semaphore| semaphore.exists() || !must_exist)
            .ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?;
        let created = !semaphore.exists();
        if created {
            semaphore.created_at = now;
            semaphore.deleted_at = None;
        } else if semaphore.capacity != capacity {
            self.capacity_changes.push(CapacityChange {
                semaphore: name.clone(),
                old_capacity: semaphore.capacity,
                new_capacity: capacity,
                changed_by: changed_by.cloned(),
                note: note.cloned(),
                changed_at: now,
            });
        }
        if created || semaphore.capacity != capacity {
            semaphore.capacity = capacity;
            semaphore.updated_at = now;
            self.written.insert(name.clone());
        }
        Ok(Reply::Defined {
            semaphore: semaphore.clone(),
            created,
        })
    }

    fn delete(&mut self, name: &SemaphoreName) -> Outcome {
        let semaphore = self
            .semaphores
            .get_mut(name)
            .filter(|semaphore| semaphore.exists())
            .ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?;
        if semaphore.in_use > 0 {
            return Err(Refusal::SemaphoreInUse {
                name: name.clone(),
                in_use: semaphore.in_use,
            });
        }
        semaphore.deleted_at = Some(self.now);
        self.written.insert(name.clone());
        Ok(Reply::Deleted)
    }

    fn acquire(&mut self, ask: &Ask) -> Outcome {
        if let Some(request) = self.requests.get(&ask.external_id) {
            return match request.state {
                _ if !ask.is_that_of(request) => {
                    Err(Refusal::IdempotencyConflict(ask.external_id.clone()))
                }
                State::Acquired => Ok(Reply::Granted {
                    request: request.clone(),
                    now: false,
                }),
                State::Released { reason, .. } => Err(ended(&ask.external_id, reason)),
            };
        }
        self.check_room(ask)?;
        let request = self.grant(ask);
        self.granted.insert(ask.external_id.clone());
        self.requests
            .insert(ask.external_id.clone(), request.clone());
        Ok(Reply::Granted { request, now: true })
    }

    /// P1 and P6: all the semaphores exist, could ever grant this much, and have room now.
    fn check_room(&self, ask: &Ask) -> Result<(), Refusal> {
        let mut unknown = Vec::new();
        let mut exceeded = None;
        let mut exhausted = Vec::new();
        for (name, count) in ask.permits() {
            let Some(semaphore) = self.semaphores.get(name).filter(|s| s.exists()) else {
                unknown.push(name.clone());
                continue;
            };
            if count.value() > semaphore.capacity.value() {
                exceeded.get_or_insert_with(|| Refusal::ExceedsCapacity {
                    semaphore: name.clone(),
                    asked: count,
                    capacity: semaphore.capacity,
                });
            } else if count.value() > semaphore.available() {
                exhausted.push(name.clone());
            }
        }
        if !unknown.is_empty() {
            return Err(Refusal::UnknownSemaphore(unknown));
        }
        if let Some(exceeded) = exceeded {
            return Err(exceeded);
        }
        if !exhausted.is_empty() {
            return Err(Refusal::Exhausted(exhausted));
        }
        Ok(())
    }

    fn grant(&mut self, ask: &Ask) -> Request {
        let mut permits = Vec::with_capacity(ask.permits().len());
        for (name, count) in ask.permits() {
            let semaphore = self
                .semaphores
                .get_mut(name)
                .expect("check_room has seen it");
            semaphore.in_use += count.value();
            semaphore.fence += 1;
            self.written.insert(name.clone());
            permits.push(Permit {
                semaphore: name.clone(),
                count,
                fence: semaphore.fence,
            });
        }
        Request {
            external_id: ask.external_id.clone(),
            owner: ask.owner.clone(),
            state: State::Acquired,
            permits,
            ttl: ask.ttl,
            expires_at: ask.ttl.map(|ttl| after(self.now, ttl)),
            created_at: self.now,
        }
    }

    fn renew(&mut self, external_id: &ExternalId, ttl: Option<Ttl>) -> Outcome {
        let request = self
            .requests
            .get_mut(external_id)
            .ok_or_else(|| Refusal::UnknownRequest(external_id.clone()))?;
        if let Some(reason) = request.end_reason() {
            return Err(ended(external_id, reason));
        }
        let ttl = ttl
            .or(request.ttl)
            .ok_or_else(|| Refusal::NoTtl(external_id.clone()))?;
        request.ttl = Some(ttl);
        request.expires_at = Some(after(self.now, ttl));
        self.renewed.insert(external_id.clone());
        Ok(Reply::Renewed(request.clone()))
    }

    fn end_by(&mut self, id: &ExternalId, reason: EndReason, expired_now: bool) -> Outcome {
        let request = self
            .requests
            .get(id)
            .ok_or_else(|| Refusal::UnknownRequest(id.clone()))?;
        if reason == EndReason::Expired {
            return Ok(Reply::Ended {
                request: request.clone(),
                now: expired_now,
            });
        }
        let now = request.is_live();
        if now {
            self.end(id, reason);
        }
        Ok(Reply::Ended {
            request: self.requests[id].clone(),
            now,
        })
    }

    fn end_if_expired(&mut self, id: &ExternalId) -> bool {
        let expired = self
            .requests
            .get(id)
            .is_some_and(|request| request.has_expired(self.now));
        if expired {
            self.end(id, EndReason::Expired);
        }
        expired
    }

    /// P2 and P3: a live request's permits come back, once.
    fn end(&mut self, external_id: &ExternalId, reason: EndReason) {
        let request = self
            .requests
            .get_mut(external_id)
            .expect("the caller has seen it live");
        request.state = State::Released {
            reason,
            at: self.now,
        };
        for permit in &request.permits {
            let semaphore = self
                .semaphores
                .get_mut(&permit.semaphore)
                .expect("the semaphores of a live request are in the footprint");
            semaphore.in_use = semaphore.in_use.saturating_sub(permit.count.value());
            self.written.insert(permit.semaphore.clone());
        }
        self.ended.insert(external_id.clone());
    }

    fn changes(self) -> Changes {
        let loaded = |id: &&ExternalId| !self.granted.contains(*id);
        let renewed = self.renewed.iter().filter(loaded).filter_map(|id| {
            let request = self.requests.get(id)?;
            Some(Renewed {
                external_id: id.clone(),
                ttl: request.ttl?,
                expires_at: request.expires_at?,
            })
        });
        let ended = self.ended.iter().filter(loaded).filter_map(|id| {
            let State::Released { reason, at } = self.requests.get(id)?.state else {
                return None;
            };
            Some(Ended {
                external_id: id.clone(),
                reason,
                at,
            })
        });
        Changes {
            renewed: renewed.collect(),
            ended: ended.collect(),
            granted: self
                .granted
                .iter()
                .filter_map(|id| self.requests.get(id).cloned())
                .collect(),
            semaphores: self
                .written
                .iter()
                .filter_map(|name| self.semaphores.get(name).cloned())
                .collect(),
            capacity_changes: self.capacity_changes,
        }
    }
}

fn ended(external_id: &ExternalId, reason: EndReason) -> Refusal {
    Refusal::RequestEnded {
        external_id: external_id.clone(),
        reason,
    }
}

/// `now` plus `ttl`. The longest is 366 days, so the end of time is not reached by a sane clock.
fn after(now: Timestamp, ttl: Ttl) -> Timestamp {
    now.checked_add(ttl.as_duration()).unwrap_or(Timestamp::MAX)
}
