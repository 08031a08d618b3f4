//! Grants: all of an ask or nothing, once, in its turn.

use super::{WorkingSet, after, ended};
use crate::{
    Admission, Ask, Capacity, Claim, Count, Grant, Outcome, Refusal, Reply, Request, SemaphoreName,
    SemaphoreRow, State, Turn,
};

/// An ask that has room on all its semaphores. Each of them exists, or a template creates it.
struct Room<'a>(&'a Ask);

impl WorkingSet {
    pub(super) fn acquire(&mut self, ask: &Ask, turn: &Turn) -> Outcome {
        if let Some(request) = self.requests.get(&ask.external_id) {
            return match request.state {
                _ if !ask.is_that_of(request) => {
                    Err(Refusal::IdempotencyConflict(ask.external_id.clone()))
                }
                State::Acquired => Ok(self.granted(request.clone(), false)),
                State::Released { reason, .. } => Err(ended(&ask.external_id, reason)),
            };
        }
        let room = self
            .check_room(ask)
            .and_then(|room| self.check_turn(ask, turn).map(|()| room))
            .inspect_err(|refusal| self.note_waiting(ask, turn, refusal))?;
        let request = self.grant(room, &turn.claim(ask));
        self.granted.insert(ask.external_id.clone());
        self.requests
            .insert(ask.external_id.clone(), request.clone());
        Ok(self.granted(request, true))
    }

    fn granted(&self, request: Request, now: bool) -> Reply {
        let left = request
            .expires_at
            .map(|expires_at| expires_at.duration_since(self.now));
        let lasts = left.map(|left| left.try_into().unwrap_or_default());
        Reply::Granted {
            request,
            now,
            lasts,
        }
    }

    /// P1 and P6: all the semaphores exist, could ever grant this much, and have room now.
    fn check_room<'a>(&self, ask: &'a Ask) -> Result<Room<'a>, Refusal> {
        let mut unknown = Vec::new();
        let mut exceeded = None;
        let mut closed = Vec::new();
        let mut exhausted = Vec::new();
        for (name, count) in ask.permits() {
            let made;
            let semaphore = match self.semaphores.get(name) {
                Some(semaphore) if semaphore.exists() => semaphore,
                deleted => {
                    let Some(new) = self.made(name, deleted) else {
                        unknown.push(name.clone());
                        continue;
                    };
                    made = new;
                    &made
                }
            };
            let (asked, capacity) = (count.value(), semaphore.capacity);
            if capacity == Capacity::CLOSED {
                closed.push(name.clone());
            } else if asked > capacity.value() {
                exceeded.get_or_insert_with(|| Refusal::ExceedsCapacity {
                    semaphore: name.clone(),
                    asked: count,
                    capacity,
                });
            } else if asked > semaphore.available() {
                exhausted.push(name.clone());
            }
        }
        if !unknown.is_empty() {
            return Err(Refusal::UnknownSemaphore(unknown));
        }
        if let Some(exceeded) = exceeded {
            return Err(exceeded);
        }
        if !closed.is_empty() {
            return Err(Refusal::Closed(closed));
        }
        if !exhausted.is_empty() {
            return Err(Refusal::Exhausted(exhausted));
        }
        Ok(Room(ask))
    }

    /// P11: an ask is refused while an earlier waiter, at this process or at another, wants one of
    /// its semaphores.
    fn check_turn(&self, ask: &Ask, turn: &Turn) -> Result<(), Refusal> {
        let mut others = self.waiting.ahead_of(ask, turn);
        if others.is_empty() {
            let claim = turn.claim(ask);
            let names = ask.permits().map(|(name, _)| name);
            others.extend(
                names
                    .filter(|name| !self.is_admitted(name, &claim))
                    .cloned(),
            );
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(Refusal::OthersFirst(others)),
        }
    }

    fn is_admitted(&self, name: &SemaphoreName, claim: &Claim) -> bool {
        let Some(semaphore) = self.semaphores.get(name).filter(|s| !s.line.is_empty()) else {
            return true;
        };
        let at = semaphore.line.time(self.now);
        semaphore.line.admission(claim, semaphore.capacity, at) == Admission::Now
    }

    fn note_waiting(&mut self, ask: &Ask, turn: &Turn, refusal: &Refusal) {
        if turn.waits && refusal.lacks_room() {
            let keys = self.lacking_keys(ask, turn);
            self.waiting.add(ask, turn, &keys);
        }
    }

    /// The keyed semaphores that have no room for a waiter, or on which others come first. While
    /// there are any, the waiter reserves nothing on its other semaphores (P11).
    fn lacking_keys(&self, ask: &Ask, turn: &Turn) -> Vec<SemaphoreName> {
        let is_keyed = |name: &SemaphoreName| {
            let semaphore = self.semaphores.get(name).filter(|s| s.exists());
            semaphore.map_or(!self.templates.is_empty(), SemaphoreRow::is_keyed)
        };
        if !ask.permits().any(|(name, _)| is_keyed(name)) {
            return Vec::new();
        }
        let claim = turn.claim(ask);
        let others = self.waiting.ahead_of(ask, turn);
        let is_lacking = |(name, count): &(&SemaphoreName, Count)| {
            let semaphore = self.find(name).filter(|semaphore| semaphore.is_keyed());
            semaphore.is_some_and(|semaphore| {
                count.value() > semaphore.available()
                    || others.contains(name)
                    || !self.is_admitted(name, &claim)
            })
        };
        let lacking = ask.permits().filter(is_lacking);
        lacking.map(|(name, _)| name.clone()).collect()
    }

    fn grant(&mut self, Room(ask): Room<'_>, claim: &Claim) -> Request {
        self.create_missing(ask);
        let mut permits = Vec::with_capacity(ask.permits().len());
        for (name, count) in ask.permits() {
            let semaphore = self
                .semaphores
                .get_mut(name)
                .expect("a semaphore of a `Room` existed, or `create_missing` has made it");
            if !semaphore.line.is_empty() {
                let at = semaphore.line.time(self.now);
                semaphore.line.pass_over(claim, semaphore.capacity, at);
            }
            semaphore.in_use += count.value();
            semaphore.fence += 1;
            if let Some(origin) = &mut semaphore.origin {
                origin.note_use(self.now);
            }
            let slots = match &mut semaphore.slots {
                None => None,
                Some(taken) => Some(taken.take(count.value(), semaphore.capacity)),
            };
            self.written.insert(name.clone());
            permits.push(Grant {
                semaphore: name.clone(),
                count,
                fence: semaphore.fence,
                slots,
            });
        }
        Request {
            external_id: ask.external_id.clone(),
            owner: ask.owner.clone(),
            state: State::Acquired,
            permits,
            ttl: ask.ttl,
            expires_at: ask.ttl.map(|ttl| after(self.now, ttl)),
            finished_at: None,
            created_at: self.now,
            ended_by: None,
        }
    }
}
