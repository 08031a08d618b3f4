//! All rules about who gets permits, in one pure function.
//!
//! A store locks and loads a footprint, calls [`decide`], saves the [`Changes`] and commits.
//! [`decide`] handles the commands one after the other on the same state. So a later command sees
//! the effect of an earlier one, and a refused command changes nothing.
//!
//! The first command that touches an expired request ends it as `expired`. So, swept or not, it
//! cannot be renewed, released or granted again (P4). A request that its holder finished in the
//! holder's own transaction is ended as `released` in the same way. A caller that read without
//! locks and believes a request due sends a [`Cause`], which [`decide`] checks again.

mod acquire;
mod definitions;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::command::Cause;
use crate::turn::StillWaiting;
use crate::{
    CapacityChange, Changes, Command, Decision, EndReason, Ended, ExternalId, Freed, Line, Loaded,
    Outcome, Owner, OwnerSession, ProcessId, Refusal, Renewed, Reply, Request, Saved,
    SemaphoreName, SemaphoreRow, Stand, State, Template, Timestamp, Ttl,
};

/// Decides `commands`, one after the other, on the rows in `loaded`.
///
/// Some rows must be loaded that the commands do not name; see [`Footprint`](crate::Footprint).
/// These are the semaphores of every live request in `loaded` that a command ends or that has
/// expired. If a command creates a semaphore, they include the row of the store's epoch. A
/// semaphore or request that is not in `loaded` does not exist. [`Changes`] contains each semaphore
/// that a command creates, whether it had a row before or not.
pub fn decide(loaded: Loaded, commands: &[Command]) -> Decision {
    let mut rows = WorkingSet::new(loaded);
    let outcomes = commands.iter().map(|command| rows.run(command)).collect();
    Decision {
        outcomes,
        changes: rows.changes(),
    }
}

/// The rows after the commands so far, and the keys of those that they changed.
struct WorkingSet {
    now: Timestamp,
    /// Each semaphore as it was before the first command.
    before: BTreeMap<SemaphoreName, Before>,
    semaphores: BTreeMap<SemaphoreName, SemaphoreRow>,
    requests: BTreeMap<ExternalId, Request>,
    owners: BTreeMap<Owner, OwnerSession>,
    templates: Vec<Template>,
    written: BTreeSet<SemaphoreName>,
    /// Semaphores on which the first process [cannot use](Saved::Excused) the free permits yet.
    excused: BTreeSet<SemaphoreName>,
    granted: BTreeSet<ExternalId>,
    renewed: BTreeSet<ExternalId>,
    ended: BTreeSet<ExternalId>,
    capacity_changes: Vec<CapacityChange>,
    heard: BTreeSet<Owner>,
    gone: BTreeSet<Owner>,
    /// The asks that were refused so far and go on waiting.
    waiting: StillWaiting,
}

/// The loaded state of a semaphore, as far as later steps compare with it.
#[derive(Clone, Copy, Debug)]
struct Before {
    available: u32,
    fence: u64,
    /// The first in its line.
    first: Option<ProcessId>,
}

impl Before {
    fn of(semaphore: &SemaphoreRow) -> Self {
        let mut entries = semaphore.line.entries().iter();
        Self {
            available: semaphore.available(),
            fence: semaphore.fence,
            first: entries.next().map(|first| first.process),
        }
    }
}

impl WorkingSet {
    fn new(loaded: Loaded) -> Self {
        let before = loaded.semaphores.values();
        Self {
            now: loaded.now,
            before: before.map(|s| (s.name.clone(), Before::of(s))).collect(),
            semaphores: loaded.semaphores,
            requests: loaded.requests,
            owners: loaded.owners,
            templates: loaded.templates,
            written: BTreeSet::new(),
            excused: BTreeSet::new(),
            granted: BTreeSet::new(),
            renewed: BTreeSet::new(),
            ended: BTreeSet::new(),
            capacity_changes: Vec::new(),
            heard: BTreeSet::new(),
            gone: BTreeSet::new(),
            waiting: StillWaiting::default(),
        }
    }

    fn run(&mut self, command: &Command) -> Outcome {
        let lapsed_now = command
            .external_id()
            .is_some_and(|id| self.end_if_lapsed(id));
        match command {
            Command::Define(definition) => self.define(definition),
            Command::Delete { name } => self.delete(name),
            Command::Follow { name } => self.follow(name),
            Command::Stand { name, stand } => self.stand(name, *stand),
            Command::RaiseFence { name, epoch } => self.raise_fence(name, *epoch),
            Command::Acquire { ask, turn } => self.acquire(ask, turn),
            Command::Renew {
                external_id,
                ttl,
                by,
            } => self.renew(external_id, *ttl, by.as_ref()),
            Command::End { external_id, cause } => self.end_by(external_id, cause, lapsed_now),
            Command::Heartbeat {
                owner,
                ttl,
                must_exist,
            } => self.heartbeat(owner, *ttl, *must_exist),
            Command::Goodbye { owner } => self.goodbye(owner),
        }
    }

    /// P11: records the waiters of a process in the line of `name`.
    fn stand(&mut self, name: &SemaphoreName, stand: Stand) -> Outcome {
        let is_written = self.written.contains(name);
        let Some(semaphore) = self.semaphores.get_mut(name).filter(|s| s.exists()) else {
            // A semaphore that a template has yet to create has no row, and so no line. All its
            // permits are free.
            let semaphore = self.find(name).ok_or_else(|| unknown(name))?.into_owned();
            let at = semaphore.line.time(self.now);
            return Ok(Reply::Seen { semaphore, at });
        };
        let at = semaphore.line.time(self.now);
        let only_reads = stand.process == ProcessId::NOBODY;
        if !only_reads && (stand.saved != Saved::Along || is_written) {
            let refused = self.waiting.on(name);
            let standing = match (stand.standing, refused) {
                (Some(one), Some(other)) => Some(one.and(other)),
                (one, other) => one.or(other),
            };
            semaphore.line.stand(stand.process, standing, at);
            self.written.insert(name.clone());
        }
        if stand.saved == Saved::Excused {
            self.excused.insert(name.clone());
        }
        let semaphore = self.semaphores[name].clone();
        let semaphore = match self.written.contains(name) {
            true => self.settled(semaphore),
            false => semaphore,
        };
        Ok(Reply::Seen { semaphore, at })
    }

    /// The semaphore as saved, with its line updated.
    fn settled(&self, mut semaphore: SemaphoreRow) -> SemaphoreRow {
        let was = self.before.get(&semaphore.name);
        // The time that is left to the first begins again after a grant, and after an excuse. A
        // resize also changes the fence, and begins it again without harm.
        let restarts = was.is_none_or(|was| was.fence != semaphore.fence)
            || self.excused.contains(&semaphore.name);
        match semaphore.exists() {
            true => semaphore
                .line
                .settle(semaphore.available(), restarts, self.now),
            false => semaphore.line = Line::default(),
        }
        semaphore
    }

    /// The new expiry counts from now. A shorter TTL makes it earlier.
    fn renew(&mut self, external_id: &ExternalId, ttl: Option<Ttl>, by: Option<&Owner>) -> Outcome {
        let request = self
            .requests
            .get_mut(external_id)
            .ok_or_else(|| Refusal::UnknownRequest(external_id.clone()))?;
        check_caller(request, by)?;
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

    fn end_by(&mut self, id: &ExternalId, cause: &Cause, lapsed_now: bool) -> Outcome {
        let request = self
            .requests
            .get(id)
            .ok_or_else(|| Refusal::UnknownRequest(id.clone()))?;
        match cause {
            Cause::Released { by } => check_caller(request, by.as_ref())?,
            Cause::Forced { by } => check_reserved(request, by.as_ref())?,
            _ => {}
        }
        let due = request.is_live() && self.is_due(request, cause);
        if due {
            let by = cause.by().filter(|by| **by != Owner::lockhouse());
            self.end(id, cause.reason(), by.cloned());
        }
        if let (true, Cause::OwnerSilent { owner }) = (due, cause) {
            self.lapse_for_good(owner);
        }
        let now = due || (lapsed_now && cause.finds_what_is_due());
        Ok(Reply::Ended {
            request: self.requests[id].clone(),
            now,
            decided_at: self.now,
        })
    }

    /// Whether a live request ends by `cause`. An expired request was ended before this.
    fn is_due(&self, request: &Request, cause: &Cause) -> bool {
        match cause {
            Cause::Released { .. } | Cause::Forced { .. } => true,
            Cause::Expired => false,
            Cause::OwnerGone { owner } => request.owner.as_ref() == Some(owner),
            Cause::OwnerSilent { owner } => {
                request.owner.as_ref() == Some(owner) && self.is_heard(owner) == Some(false)
            }
            Cause::Stale { age, owner } => {
                let held = self.now.duration_since(request.created_at);
                let kept = owner.as_ref().and_then(|owner| self.is_heard(owner));
                request.owner == *owner
                    && kept != Some(true)
                    && request.ttl.is_none()
                    && Duration::try_from(held).is_ok_and(|held| held >= *age)
            }
        }
    }

    /// Makes a lapsed session stay lapsed even if the clock is set back. Its row stays, so that its
    /// other requests end too.
    fn lapse_for_good(&mut self, owner: &Owner) {
        let long_ago = Timestamp::UNIX_EPOCH;
        if let Some(session) = self.owners.get_mut(owner)
            && session.expires_at > long_ago
        {
            session.expires_at = long_ago;
            self.heard.insert(owner.clone());
        }
    }

    /// Whether the owner's session is live. `None` if it has none.
    fn is_heard(&self, owner: &Owner) -> Option<bool> {
        let session = self.owners.get(owner)?;
        Some(session.expires_at > self.now)
    }

    fn heartbeat(&mut self, owner: &Owner, ttl: Ttl, must_exist: bool) -> Outcome {
        let began = self.is_heard(owner) != Some(true);
        if began && must_exist {
            return Err(Refusal::SessionEnded(owner.clone()));
        }
        let session = OwnerSession {
            owner: owner.clone(),
            ttl,
            expires_at: after(self.now, ttl),
        };
        self.owners.insert(owner.clone(), session.clone());
        self.heard.insert(owner.clone());
        self.gone.remove(owner);
        Ok(Reply::Heard { session, began })
    }

    fn goodbye(&mut self, owner: &Owner) -> Outcome {
        let now = self.owners.remove(owner).is_some();
        if now {
            self.heard.remove(owner);
            self.gone.insert(owner.clone());
        }
        Ok(Reply::Gone { now })
    }

    fn end_if_lapsed(&mut self, id: &ExternalId) -> bool {
        let request = self.requests.get(id);
        let lapse = request.and_then(|request| request.lapse(self.now));
        if let Some(reason) = lapse {
            self.end(id, reason, None);
        }
        lapse.is_some()
    }

    /// P2 and P3: ends a live request and frees its permits, once. A semaphore that is not loaded does not exist, so it
    /// has nothing to free.
    fn end(&mut self, external_id: &ExternalId, reason: EndReason, by: Option<Owner>) {
        let Some(request) = self.requests.get_mut(external_id) else {
            return;
        };
        request.state = State::Released {
            reason,
            at: self.now,
        };
        request.ended_by = by;
        for permit in &request.permits {
            let Some(semaphore) = self.semaphores.get_mut(&permit.semaphore) else {
                continue;
            };
            semaphore.in_use = semaphore.in_use.saturating_sub(permit.count.value());
            if let (Some(taken), Some(slots)) = (&mut semaphore.slots, &permit.slots) {
                taken.remove(slots);
            }
            self.written.insert(permit.semaphore.clone());
        }
        self.ended.insert(external_id.clone());
    }

    /// The semaphores among `saved` that have more room than before, have room that is now left to
    /// another process, or are deleted.
    fn freed(&self, saved: &[SemaphoreRow]) -> Vec<Freed> {
        let freed = saved.iter().filter_map(|now| {
            let before = self.before.get(&now.name);
            let at = now.line.time(self.now);
            let first = now.line.first(now.capacity, at).map(|first| first.process);
            let available = before.map_or(0, |before| before.available);
            let is_left = now.available() > 0
                && first.is_some()
                && before.is_none_or(|before| before.first != first);
            let is_freed = now.available() > available || !now.exists() || is_left;
            is_freed.then(|| Freed {
                semaphore: now.name.clone(),
                left_to: first,
            })
        });
        freed.collect()
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
            let request = self.requests.get(id)?;
            Some(Ended {
                external_id: id.clone(),
                reason: request.end_reason()?,
                at: request.released_at()?,
                by: request.ended_by.clone(),
            })
        });
        let written = self.written.iter();
        let semaphores = written.filter_map(|name| self.semaphores.get(name).cloned());
        let semaphores: Vec<_> = semaphores.map(|written| self.settled(written)).collect();
        Changes {
            freed: self.freed(&semaphores),
            semaphores,
            renewed: renewed.collect(),
            ended: ended.collect(),
            granted: self
                .granted
                .iter()
                .filter_map(|id| self.requests.get(id).cloned())
                .collect(),
            capacity_changes: self.capacity_changes,
            heartbeats: self
                .heard
                .iter()
                .filter_map(|owner| self.owners.get(owner).cloned())
                .collect(),
            goodbyes: self.gone.into_iter().collect(),
        }
    }
}

fn unknown(name: &SemaphoreName) -> Refusal {
    Refusal::UnknownSemaphore(vec![name.clone()])
}

/// Checks that `by` may treat `request` as its own. This restricts owners that belong to tokens, and
/// leaves Lockhouse's own requests to Lockhouse.
fn check_caller(request: &Request, by: Option<&Owner>) -> Result<(), Refusal> {
    check_reserved(request, by)?;
    let token = by.and_then(Owner::token);
    let is_its_own = token.is_none() || token == request.owner.as_ref().and_then(Owner::token);
    match is_its_own || request.is_reserved() {
        true => Ok(()),
        false => Err(Refusal::OfAnotherToken(request.external_id.clone())),
    }
}

/// Checks that `request` is not Lockhouse's own, or that `by` is Lockhouse. Callers cannot see such a
/// request, so it is unknown to them.
fn check_reserved(request: &Request, by: Option<&Owner>) -> Result<(), Refusal> {
    match !request.is_reserved() || by == Some(&Owner::lockhouse()) {
        true => Ok(()),
        false => Err(Refusal::UnknownRequest(request.external_id.clone())),
    }
}

fn in_use(semaphore: &SemaphoreRow) -> Refusal {
    Refusal::SemaphoreInUse {
        name: semaphore.name.clone(),
        in_use: semaphore.in_use,
    }
}

fn ended(external_id: &ExternalId, reason: EndReason) -> Refusal {
    Refusal::RequestEnded {
        external_id: external_id.clone(),
        reason,
    }
}

/// `now` plus `ttl`. The longest TTL is 366 days, so a sane clock does not overflow.
fn after(now: Timestamp, ttl: Ttl) -> Timestamp {
    now.checked_add(ttl.as_duration()).unwrap_or(Timestamp::MAX)
}
