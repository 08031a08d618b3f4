//! The rules once more, on a log that is only ever added to: slow, and plain enough to be believed.
//!
//! It shares words with `decide`, and no code. Beyond the answers it knows what must be saved: a
//! row is written if and only if the log says that something happened to it.

use std::collections::BTreeSet;

use lockhouse_core::{
    Ask, Capacity, CapacityChange, Changes, Command, EndReason, Ended, ExternalId, Outcome,
    Refusal, Renewed, Reply, SemaphoreName, Timestamp, Ttl,
};

use crate::log::{self, Entry, Event};

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) log: Vec<Entry>,
}

impl Model {
    /// The answers to a batch, and what it must save.
    pub(crate) fn run(&mut self, now: Timestamp, commands: &[Command]) -> (Vec<Outcome>, Changes) {
        let before = self.log.len();
        let outcomes = commands.iter().map(|c| self.answer(now, c)).collect();
        (outcomes, self.changes_since(before))
    }

    fn answer(&mut self, now: Timestamp, command: &Command) -> Outcome {
        let due = command.external_id().filter(|id| self.is_due(now, id));
        if let Some(id) = due {
            self.add(now, Event::Ended(id.clone(), EndReason::Expired));
        }
        match command {
            Command::Define { name, .. } => self.define(now, command, name),
            Command::Delete { name } => self.delete(now, name),
            Command::Acquire(ask) => self.acquire(now, ask),
            Command::Renew { external_id, ttl } => self.renew(now, external_id, *ttl),
            Command::End {
                external_id,
                reason: EndReason::Expired,
            } => self.ended(external_id, due.is_some()),
            Command::End {
                external_id,
                reason,
            } => {
                let now_ended = self.is_live(external_id);
                if now_ended {
                    self.add(now, Event::Ended(external_id.clone(), *reason));
                }
                self.ended(external_id, now_ended)
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    fn define(&mut self, now: Timestamp, command: &Command, name: &SemaphoreName) -> Outcome {
        let Command::Define {
            capacity,
            must_exist,
            changed_by,
            note,
            ..
        } = command
        else {
            panic!("{command:?} defines nothing");
        };
        let old = self.capacity(name);
        if old.is_none() && *must_exist {
            return Err(Refusal::UnknownSemaphore(vec![name.clone()]));
        }
        if old != Some(*capacity) {
            let event = Event::Defined {
                name: name.clone(),
                capacity: *capacity,
                changed_by: changed_by.clone(),
                note: note.clone(),
            };
            self.add(now, event);
        }
        Ok(Reply::Defined {
            semaphore: log::semaphore(&self.log, name).expect("defined above"),
            created: old.is_none(),
        })
    }

    fn delete(&mut self, now: Timestamp, name: &SemaphoreName) -> Outcome {
        if self.capacity(name).is_none() {
            return Err(Refusal::UnknownSemaphore(vec![name.clone()]));
        }
        let in_use = log::live_permits(&self.log, name);
        if in_use > 0 {
            let name = name.clone();
            return Err(Refusal::SemaphoreInUse { name, in_use });
        }
        self.add(now, Event::Deleted(name.clone()));
        Ok(Reply::Deleted)
    }

    fn acquire(&mut self, now: Timestamp, ask: &Ask) -> Outcome {
        let id = &ask.external_id;
        if let Some(first) = log::grant(&self.log, id) {
            if first.owner != ask.owner || !first.permits().eq(ask.permits()) {
                return Err(Refusal::IdempotencyConflict(id.clone()));
            }
            self.not_ended(id)?;
            return Ok(self.granted(id, false));
        }
        let unknown: Vec<_> = ask
            .permits()
            .filter(|(name, _)| self.capacity(name).is_none())
            .map(|(name, _)| name.clone())
            .collect();
        if !unknown.is_empty() {
            return Err(Refusal::UnknownSemaphore(unknown));
        }
        let mut lacking = Vec::new();
        for (name, asked) in ask.permits() {
            let capacity = self.capacity(name).expect("checked above");
            if asked.value() > capacity.value() {
                let semaphore = name.clone();
                return Err(Refusal::ExceedsCapacity {
                    semaphore,
                    asked,
                    capacity,
                });
            }
            if log::live_permits(&self.log, name) + asked.value() > capacity.value() {
                lacking.push(name.clone());
            }
        }
        if !lacking.is_empty() {
            return Err(Refusal::Exhausted(lacking));
        }
        self.add(now, Event::Granted(ask.clone()));
        Ok(self.granted(id, true))
    }

    fn renew(&mut self, now: Timestamp, id: &ExternalId, ttl: Option<Ttl>) -> Outcome {
        let unknown = || Refusal::UnknownRequest(id.clone());
        log::grant(&self.log, id).ok_or_else(unknown)?;
        self.not_ended(id)?;
        let last_given = log::expiry(&self.log, id).map(|(ttl, _)| ttl);
        let ttl = ttl.or(last_given).ok_or(Refusal::NoTtl(id.clone()))?;
        self.add(now, Event::Renewed(id.clone(), ttl));
        Ok(Reply::Renewed(
            log::request(&self.log, id).expect("granted before"),
        ))
    }

    fn add(&mut self, at: Timestamp, event: Event) {
        self.log.push(Entry { at, event });
    }

    fn capacity(&self, name: &SemaphoreName) -> Option<Capacity> {
        log::capacity(&self.log, name)
    }

    fn is_live(&self, id: &ExternalId) -> bool {
        log::grant(&self.log, id).is_some() && log::end(&self.log, id).is_none()
    }

    fn is_due(&self, now: Timestamp, id: &ExternalId) -> bool {
        self.is_live(id) && log::expiry(&self.log, id).is_some_and(|(_, at)| at <= now)
    }

    fn not_ended(&self, id: &ExternalId) -> Result<(), Refusal> {
        match log::end(&self.log, id) {
            None => Ok(()),
            Some((reason, _)) => Err(Refusal::RequestEnded {
                external_id: id.clone(),
                reason,
            }),
        }
    }

    fn granted(&self, id: &ExternalId, now: bool) -> Reply {
        let request = log::request(&self.log, id).expect("granted above");
        Reply::Granted { request, now }
    }

    fn ended(&self, id: &ExternalId, now: bool) -> Outcome {
        match log::request(&self.log, id) {
            None => Err(Refusal::UnknownRequest(id.clone())),
            Some(request) => Ok(Reply::Ended { request, now }),
        }
    }

    /// What must be saved of what happened since the log was `start` long.
    fn changes_since(&self, start: usize) -> Changes {
        let mut touched = BTreeSet::new();
        let mut granted = BTreeSet::new();
        let mut renewed = BTreeSet::new();
        let mut ended = BTreeSet::new();
        let mut capacity_changes = Vec::new();
        for (i, entry) in self.log.iter().enumerate().skip(start) {
            match &entry.event {
                Event::Defined {
                    name,
                    capacity,
                    changed_by,
                    note,
                } => {
                    touched.insert(name);
                    let old = log::capacity(&self.log[..i], name);
                    capacity_changes.extend(old.map(|old_capacity| CapacityChange {
                        semaphore: name.clone(),
                        old_capacity,
                        new_capacity: *capacity,
                        changed_by: changed_by.clone(),
                        note: note.clone(),
                        changed_at: entry.at,
                    }));
                }
                Event::Deleted(name) => _ = touched.insert(name),
                Event::Granted(ask) => {
                    granted.insert(&ask.external_id);
                    touched.extend(ask.permits().map(|(name, _)| name));
                }
                Event::Renewed(id, _) => _ = renewed.insert(id),
                Event::Ended(id, _) => {
                    ended.insert(id);
                    let ask = log::grant(&self.log, id).expect("only what was granted ends");
                    touched.extend(ask.permits().map(|(name, _)| name));
                }
            }
        }
        let row = |name: &SemaphoreName| log::semaphore(&self.log, name);
        let insert = |id: &ExternalId| log::request(&self.log, id);
        let renew = |id: &ExternalId| {
            log::expiry(&self.log, id).map(|(ttl, expires_at)| Renewed {
                external_id: id.clone(),
                ttl,
                expires_at,
            })
        };
        let end = |id: &ExternalId| {
            log::end(&self.log, id).map(|(reason, at)| Ended {
                external_id: id.clone(),
                reason,
                at,
            })
        };
        Changes {
            semaphores: touched.into_iter().filter_map(row).collect(),
            renewed: renewed
                .difference(&granted)
                .filter_map(|id| renew(id))
                .collect(),
            ended: ended
                .difference(&granted)
                .filter_map(|id| end(id))
                .collect(),
            granted: granted.into_iter().filter_map(insert).collect(),
            capacity_changes,
        }
    }
}
