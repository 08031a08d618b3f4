//! A second implementation of the rules, on a log that only grows. It is slow, and simple enough to be read and believed.
//!
//! It shares types with `decide`, and no code. The changes to save are derived from the log too.

use std::time::Duration;

use lockhouse_core::{
    Ask, Capacity, Cause, Changes, Command, Definition, ExternalId, Line, Outcome, Refusal, Reply,
    SemaphoreName, Template, Timestamp, Ttl,
};

use crate::log::{self, Entry, Event};
use crate::{origins, saved, semaphores};

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) log: Vec<Entry>,
}

impl Model {
    /// The answers to a batch, and what it must save.
    pub(crate) fn run(&mut self, now: Timestamp, commands: &[Command]) -> (Vec<Outcome>, Changes) {
        let before = self.log.len();
        let outcomes = commands.iter().map(|c| self.answer(now, c)).collect();
        (outcomes, saved::since(before, &self.log))
    }

    /// A holder finishes a request in its own transaction, if it is held.
    pub(crate) fn finish(&mut self, now: Timestamp, id: &ExternalId) {
        let owner = log::grant(&self.log, id).and_then(|ask| ask.owner.as_ref());
        let session = owner.and_then(|owner| log::session(&self.log, owner));
        let is_silent = session.is_some_and(|session| now >= session.expires_at);
        if self.is_live(id) && !self.is_due(now, id) && !is_silent {
            self.add(now, Event::Finished(id.clone()));
        }
    }

    fn answer(&mut self, now: Timestamp, command: &Command) -> Outcome {
        let due = command.external_id().filter(|id| self.is_due(now, id));
        if let Some(id) = due {
            let cause = match log::finished_at(&self.log, id) {
                Some(_) => Cause::Released { by: None },
                None => Cause::Expired,
            };
            self.add(now, Event::Ended(id.clone(), cause));
        }
        match command {
            Command::Define(wanted) => self.define(now, wanted),
            Command::Delete { name } => self.delete(now, name),
            Command::Stand { name, .. } => {
                let there = match log::capacity(&self.log, name) {
                    Some(_) => semaphores::row(&self.log, name),
                    None => origins::made(&self.log, name, now),
                };
                let unknown = || Refusal::UnknownSemaphore(vec![name.clone()]);
                let semaphore = there.ok_or_else(unknown)?;
                let at = Line::default().time(now);
                Ok(Reply::Seen { semaphore, at })
            }
            Command::Follow { name } => self.follow(now, name),
            Command::Acquire { ask, .. } => self.acquire(now, ask),
            Command::Renew {
                external_id, ttl, ..
            } => self.renew(now, external_id, *ttl),
            Command::End { external_id, cause } => {
                let asked_for_it = !matches!(cause, Cause::Released { .. } | Cause::Forced { .. });
                let found = due.is_some() && asked_for_it;
                let holds = self.is_live(external_id) && self.holds(now, external_id, cause);
                if holds {
                    self.add(now, Event::Ended(external_id.clone(), cause.clone()));
                }
                self.ended(now, external_id, holds || found)
            }
            Command::Heartbeat {
                owner,
                ttl,
                must_exist,
            } => {
                let last = log::session(&self.log, owner);
                let began = last.is_none_or(|last| now >= last.expires_at);
                if began && *must_exist {
                    return Err(Refusal::SessionEnded(owner.clone()));
                }
                self.add(now, Event::Heard(owner.clone(), *ttl));
                let session = log::session(&self.log, owner);
                Ok(Reply::Heard {
                    session: session.expect("heard above"),
                    began,
                })
            }
            Command::Goodbye { owner } => {
                let there = log::session(&self.log, owner).is_some();
                if there {
                    self.add(now, Event::Left(owner.clone()));
                }
                Ok(Reply::Gone { now: there })
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    /// Whether `cause` is a reason to end a live request that has not expired.
    fn holds(&self, now: Timestamp, id: &ExternalId, cause: &Cause) -> bool {
        let ask = log::grant(&self.log, id).expect("it is live");
        match cause {
            Cause::Released { .. } | Cause::Forced { .. } => true,
            Cause::Expired => false,
            Cause::OwnerGone { owner } => ask.owner.iter().any(|its| its == owner),
            Cause::OwnerSilent { owner } => {
                let session = log::session(&self.log, owner);
                let lapsed = session.is_some_and(|session| now >= session.expires_at);
                lapsed && ask.owner.iter().any(|its| its == owner)
            }
            Cause::Stale { age, owner } => {
                let since = log::granted_at(&self.log, id).expect("it is live");
                let held_ms = i128::from(now.as_millisecond() - since.as_millisecond());
                let age_ms = i128::try_from(age.as_millis()).expect("a test's age is short");
                let session = owner.iter().find_map(|who| log::session(&self.log, who));
                let kept = session.is_some_and(|session| now < session.expires_at);
                let old = log::expiry(&self.log, id).is_none() && held_ms >= age_ms;
                old && !kept && ask.owner == *owner
            }
        }
    }

    /// Replaces all templates.
    pub(crate) fn set_templates(&mut self, now: Timestamp, templates: &[Template]) {
        self.add(now, Event::Templates(templates.to_vec()));
    }

    /// Deletes a template's semaphore that was unused for long enough, or else resizes it. Leaves it unchanged if an operator
    /// has resized it.
    fn follow(&mut self, now: Timestamp, name: &SemaphoreName) -> Outcome {
        let Some(capacity) = log::capacity(&self.log, name) else {
            return Err(Refusal::UnknownSemaphore(vec![name.clone()]));
        };
        let origin = origins::of(&self.log, name);
        let template = origin
            .filter(|origin| !origin.is_resized)
            .and_then(|origin| {
                let template = origins::followed(&self.log, &origin)?.clone();
                Some((origin, template))
            });
        let mut is_resized = false;
        if let Some((origin, template)) = template {
            let unused_ms = now.as_millisecond() - origin.used_at.as_millisecond();
            let idle_ms =
                i64::try_from(template.idle.as_ms()).expect("a test's idle time is short");
            let is_unused = unused_ms >= idle_ms + 1_000;
            if is_unused && log::live_permits(&self.log, name) == 0 {
                self.add(now, Event::Deleted(name.clone()));
            } else if template.capacity != capacity {
                is_resized = true;
                let event = Event::Followed {
                    name: name.clone(),
                    capacity: template.capacity,
                    template: template.pattern,
                };
                self.add(now, event);
            }
        }
        Ok(Reply::Followed {
            semaphore: semaphores::row(&self.log, name).expect("it was there"),
            is_resized,
        })
    }

    fn define(&mut self, now: Timestamp, wanted: &Definition) -> Outcome {
        let name = &wanted.name;
        let old = log::capacity(&self.log, name);
        let from = match wanted.if_missing {
            true => Some(wanted.capacity),
            false => wanted.expected,
        };
        let gets_slots = wanted.slots.unwrap_or(log::is_slotted(&self.log, name));
        match (old, from) {
            (None, _) if wanted.must_exist || wanted.expected.is_some() => {
                return Err(Refusal::UnknownSemaphore(vec![name.clone()]));
            }
            _ if gets_slots && wanted.capacity.value() > 4_096 => {
                return Err(Refusal::TooManySlots {
                    name: name.clone(),
                    capacity: wanted.capacity,
                });
            }
            (Some(capacity), Some(expected))
                if ![expected, wanted.capacity].contains(&capacity) =>
            {
                let name = name.clone();
                return Err(Refusal::CapacityChanged {
                    name,
                    expected,
                    capacity,
                });
            }
            _ => {}
        }
        let was_slotted = log::is_slotted(&self.log, name);
        let slotted = wanted.slots.unwrap_or(was_slotted);
        if old.is_some() && slotted != was_slotted {
            let in_use = log::live_permits(&self.log, name);
            let name = name.clone();
            if wanted.if_missing {
                return Err(Refusal::SlotsDiffer { name, was_slotted });
            }
            if in_use > 0 {
                return Err(Refusal::SemaphoreInUse { name, in_use });
            }
        }
        if old != Some(wanted.capacity) || slotted != was_slotted {
            let template = origins::template(&self.log, name);
            let template = template.filter(|template| {
                wanted.if_missing && template.capacity == wanted.capacity && !slotted
            });
            let event = Event::Defined {
                name: name.clone(),
                capacity: wanted.capacity,
                slotted,
                of_template: template.map(|template| template.pattern.clone()),
                changed_by: wanted.changed_by.clone(),
                note: wanted.note.clone(),
            };
            self.add(now, event);
        }
        Ok(Reply::Defined {
            semaphore: semaphores::row(&self.log, name).expect("defined above"),
            created: old.is_none(),
        })
    }

    fn delete(&mut self, now: Timestamp, name: &SemaphoreName) -> Outcome {
        if log::capacity(&self.log, name).is_none() {
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
            return Ok(self.granted(now, id, false));
        }
        let unknown: Vec<_> = ask
            .permits()
            .filter(|(name, _)| self.capacity(name).is_none())
            .map(|(name, _)| name.clone())
            .collect();
        if !unknown.is_empty() {
            return Err(Refusal::UnknownSemaphore(unknown));
        }
        let (mut closed, mut lacking) = (Vec::new(), Vec::new());
        for (name, asked) in ask.permits() {
            let capacity = self.capacity(name).expect("checked above");
            if capacity.value() == 0 {
                closed.push(name.clone());
                continue;
            }
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
        if !closed.is_empty() {
            return Err(Refusal::Closed(closed));
        }
        if !lacking.is_empty() {
            return Err(Refusal::Exhausted(lacking));
        }
        for (name, _) in ask.permits() {
            if log::capacity(&self.log, name).is_none() {
                let template = origins::template(&self.log, name).expect("checked above");
                let event = Event::Made {
                    name: name.clone(),
                    capacity: template.capacity,
                    template: template.pattern.clone(),
                };
                self.add(now, event);
            }
        }
        self.add(now, Event::Granted(ask.clone()));
        Ok(self.granted(now, id, true))
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

    /// The capacity of `name`, or the one that a template would create it with.
    fn capacity(&self, name: &SemaphoreName) -> Option<Capacity> {
        let made = || Some(origins::template(&self.log, name)?.capacity);
        log::capacity(&self.log, name).or_else(made)
    }

    fn is_live(&self, id: &ExternalId) -> bool {
        log::grant(&self.log, id).is_some() && log::end(&self.log, id).is_none()
    }

    fn is_due(&self, now: Timestamp, id: &ExternalId) -> bool {
        let is_past = log::expiry(&self.log, id).is_some_and(|(_, at)| at <= now);
        self.is_live(id) && (is_past || log::finished_at(&self.log, id).is_some())
    }

    fn not_ended(&self, id: &ExternalId) -> Result<(), Refusal> {
        match log::end(&self.log, id) {
            None => Ok(()),
            Some((cause, _)) => Err(Refusal::RequestEnded {
                external_id: id.clone(),
                reason: log::reason(cause),
            }),
        }
    }

    fn granted(&self, at: Timestamp, id: &ExternalId, now: bool) -> Reply {
        let left = log::expiry(&self.log, id).map(|(_, expires_at)| {
            let ms = expires_at.as_millisecond() - at.as_millisecond();
            Duration::from_millis(u64::try_from(ms).expect("it is not past its time"))
        });
        Reply::Granted {
            request: log::request(&self.log, id).expect("granted above"),
            now,
            lasts: left,
        }
    }

    fn ended(&self, decided_at: Timestamp, id: &ExternalId, now: bool) -> Outcome {
        match log::request(&self.log, id) {
            None => Err(Refusal::UnknownRequest(id.clone())),
            Some(request) => Ok(Reply::Ended {
                request,
                now,
                decided_at,
            }),
        }
    }
}
