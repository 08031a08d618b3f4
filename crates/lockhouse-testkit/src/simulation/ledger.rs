//! The book, or ledger: the state that the store must have, kept in commit order from its answers.
//!
//! Each outcome is compared with the book before it is entered, one command after the other. After every commit the rows
//! are compared with the book.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockhouse::store::{Batch, Cause, Command, Outcome, Reply};
use lockhouse::{Ask, EndReason, ExternalId, Owner, Refusal, Request, SemaphoreName, Timestamp};
use lockhouse_core::SemaphoreRow;

use super::pools::Pools;
use super::violation::{Check, Violation, ensure};

/// The book.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) commit: u64,
    pub(super) pools: Pools,
    pub(super) grants: BTreeMap<ExternalId, Grant>,
    sessions: BTreeMap<Owner, Heard>,
}

/// An owner's session.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// When the session lapses.
    until: Timestamp,
    /// Whether the owner's silence ended a request. Then the session does not go on, whatever the clock says.
    is_over: bool,
}

/// A grant and what became of it.
#[derive(Debug)]
pub(super) struct Grant {
    /// The request as it was granted, except for its expiry.
    pub(super) request: Request,
    pub(super) granted: u64,
    pub(super) ended: Option<(u64, EndReason)>,
    /// When the request ended, or could have been ended before.
    pub(super) over: Option<Timestamp>,
    /// All expiries that the request ever had.
    pub(super) expiries: BTreeSet<Timestamp>,
}

impl Ledger {
    /// Enters a commit. Returns the requests that it ended.
    pub(super) fn enter(
        &mut self,
        batch: &Batch,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> Result<Vec<ExternalId>, Violation> {
        self.commit += 1;
        ensure(batch.commands.len() == outcomes.len(), "answers", || {
            format!(
                "{} commands have {} outcomes",
                batch.commands.len(),
                outcomes.len()
            )
        })?;
        for (command, outcome) in batch.commands.iter().zip(outcomes) {
            self.step(command, outcome, now)?;
        }
        let ids = batch.commands.iter().filter_map(Command::external_id);
        let ended_now = |id: &&ExternalId| {
            let grant = self.grants.get(*id);
            grant.is_some_and(|grant| grant.ended.is_some_and(|(at, _)| at == self.commit))
        };
        Ok(ids.filter(ended_now).cloned().collect())
    }

    fn step(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) -> Check {
        let expired_now = command.external_id().is_some_and(|id| self.expire(id, now));
        match (command, outcome) {
            (Command::Acquire { ask, .. }, Ok(reply)) => match reply {
                Reply::Granted {
                    request, now: true, ..
                } => self.grant(ask, request, now),
                Reply::Granted { request, .. } => self.granted_before(ask, request),
                other => ensure(false, "answers", || format!("{command:?}: {other:?}")),
            },
            (_, Err(refusal)) => self.refuse(command, refusal),
            (Command::Renew { .. }, Ok(Reply::Renewed(request))) => self.renew(request, now),
            (
                Command::End { cause, .. },
                Ok(Reply::Ended {
                    request,
                    now: is_now,
                    ..
                }),
            ) => self.end_by(request, cause, *is_now, expired_now, now),
            (Command::Define(wanted), Ok(Reply::Defined { semaphore, created })) => {
                self.pools.define(self.commit, wanted, semaphore, *created)
            }
            (Command::Delete { name }, Ok(Reply::Deleted)) => self.pools.delete(self.commit, name),
            (
                Command::Follow { .. },
                Ok(Reply::Followed {
                    semaphore,
                    is_resized,
                }),
            ) => self.pools.follow(self.commit, semaphore, *is_resized, now),
            (Command::Stand { .. }, Ok(Reply::Seen { semaphore, .. })) => {
                self.pools.compare(semaphore)
            }
            (Command::Heartbeat { owner, .. }, Ok(Reply::Heard { session, began })) => {
                let goes_on = self.is_heard(owner, now) == Some(true);
                let heard = Heard {
                    until: session.expires_at,
                    is_over: false,
                };
                self.sessions.insert(owner.clone(), heard);
                ensure(*began != goes_on, "P10", || {
                    format!("{owner} was heard, and told that a session began: {began}")
                })
            }
            (Command::Goodbye { owner }, Ok(Reply::Gone { .. })) => {
                self.sessions.remove(owner);
                Ok(())
            }
            (command, outcome) => ensure(false, "answers", || format!("{command:?}: {outcome:?}")),
        }
    }

    /// P4: any command that touches an expired request ends it.
    fn expire(&mut self, id: &ExternalId, now: Timestamp) -> bool {
        let grant = self.grants.get(id);
        let is_past = grant.is_some_and(|g| g.ended.is_none() && g.request.lapse(now).is_some());
        if is_past {
            self.end(id, EndReason::Expired, now);
        }
        is_past
    }

    fn end(&mut self, id: &ExternalId, reason: EndReason, now: Timestamp) {
        let lapses = self.grants.get(id).and_then(|grant| self.lapses(grant));
        let Some(grant) = self.grants.get_mut(id) else {
            return;
        };
        grant.ended = Some((self.commit, reason));
        grant.over = Some(lapses.map_or(now, |lapses| lapses.min(now)));
        for permit in &grant.request.permits {
            self.pools.give_back(permit);
        }
    }

    fn grant(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Check {
        let id = &ask.external_id;
        if let Some(before) = self.grants.get(id) {
            let ended = before.ended;
            return ensure(false, "P5", || {
                format!("{id} is granted again, after a grant that ended: {ended:?}")
            });
        }
        ensure(ask.is_that_of(request), "P6", || {
            format!("{ask:?} is granted as {request:?}")
        })?;
        let expires_at = ask.ttl.map(|ttl| now + ttl.as_duration());
        ensure(request.expires_at == expires_at, "P8", || {
            format!("{ask:?} is granted at {now} until {:?}", request.expires_at)
        })?;
        for permit in &request.permits {
            self.pools.grant(self.commit, id, permit, now)?;
        }
        let grant = Grant {
            request: request.clone(),
            granted: self.commit,
            ended: None,
            over: None,
            expiries: expires_at.into_iter().collect(),
        };
        self.grants.insert(id.clone(), grant);
        Ok(())
    }

    fn granted_before(&self, ask: &Ask, request: &Request) -> Check {
        let id = &ask.external_id;
        let grant = self.grants.get(id);
        let is_it = grant.is_some_and(|grant| {
            grant.ended.is_none()
                && grant.request.permits == request.permits
                && ask.is_that_of(request)
        });
        ensure(is_it, "P5", || {
            format!(
                "{id} was answered with the earlier grant {request:?}, but the grant was {grant:?}"
            )
        })
    }

    fn renew(&mut self, request: &Request, now: Timestamp) -> Check {
        let grant = self.grants.get_mut(&request.external_id);
        let grant = grant.filter(|grant| grant.ended.is_none());
        let ttl = request.ttl.map(|ttl| now + ttl.as_duration());
        ensure(grant.is_some() && ttl == request.expires_at, "P4", || {
            format!("{request:?} is renewed, which was {grant:?}")
        })?;
        if let Some(grant) = grant {
            grant.request.expires_at = request.expires_at;
            grant.request.ttl = request.ttl;
            grant.expiries.extend(request.expires_at);
        }
        Ok(())
    }

    fn end_by(
        &mut self,
        request: &Request,
        cause: &Cause,
        is_now: bool,
        expired_now: bool,
        now: Timestamp,
    ) -> Check {
        let id = &request.external_id;
        let was_live = self.grants.get(id).is_some_and(|g| g.ended.is_none());
        let is_due = was_live && self.is_due(cause, now);
        let finds = expired_now && !matches!(cause, Cause::Released { .. } | Cause::Forced { .. });
        ensure(is_now == (is_due || finds), "P3", || {
            let grant = self.grants.get(id);
            format!("{id} is told that it ended by {cause:?} now: {is_now}; it was {grant:?}")
        })?;
        if is_due {
            self.end(id, cause.reason(), now);
        }
        if let (true, Cause::OwnerSilent { owner }) = (is_due, cause) {
            let heard = self.sessions.get_mut(owner);
            heard.into_iter().for_each(|heard| heard.is_over = true);
        }
        let ended = self.grants.get(id).and_then(|grant| grant.ended);
        let reason = ended.map(|(_, reason)| reason);
        ensure(request.end_reason() == reason, "P3", || {
            format!(
                "{id} is told that it ended {:?}, it did {ended:?}",
                request.end_reason()
            )
        })
    }

    fn is_due(&self, cause: &Cause, now: Timestamp) -> bool {
        match cause {
            Cause::Released { .. } | Cause::Forced { .. } | Cause::OwnerGone { .. } => true,
            Cause::OwnerSilent { owner } => self.is_heard(owner, now) == Some(false),
            // A run is shorter than the age of staleness.
            Cause::Expired | Cause::Stale { .. } => false,
        }
    }

    fn is_heard(&self, owner: &Owner, now: Timestamp) -> Option<bool> {
        let heard = self.sessions.get(owner)?;
        Some(!heard.is_over && heard.until > now)
    }

    fn refuse(&self, command: &Command, refusal: &Refusal) -> Check {
        let is_true = match refusal {
            Refusal::Exhausted(names) => {
                let ask = command.ask().filter(|_| !names.is_empty());
                let mut lacked = ask.into_iter().flat_map(Ask::permits);
                lacked.all(|(name, count)| !names.contains(name) || self.room(name) < count.value())
            }
            Refusal::ExceedsCapacity {
                semaphore, asked, ..
            } => (1..asked.value()).contains(&self.capacity(semaphore)),
            Refusal::Closed(names) => {
                let is_closed = |name| self.pools.capacity_of(name) == Some(0);
                !names.is_empty() && names.iter().all(is_closed)
            }
            Refusal::UnknownSemaphore(names) => names.iter().all(|name| {
                let uses_templates =
                    matches!(command, Command::Acquire { .. } | Command::Stand { .. });
                let is_made = uses_templates && self.pools.capacity_of(name).is_some();
                !self.pools.exists(name) && !is_made
            }),
            Refusal::SemaphoreInUse { name, in_use } => {
                self.pools.live(name) == *in_use && *in_use > 0
            }
            Refusal::UnknownRequest(id) => !self.grants.contains_key(id),
            Refusal::RequestEnded {
                external_id,
                reason,
            } => {
                let grant = self.grants.get(external_id);
                grant
                    .and_then(|g| g.ended)
                    .is_some_and(|(_, its)| its == *reason)
            }
            Refusal::IdempotencyConflict(id) => {
                let (grant, ask) = (self.grants.get(id), command.ask());
                grant
                    .zip(ask)
                    .is_some_and(|(g, ask)| !ask.is_that_of(&g.request))
            }
            _ => true,
        };
        ensure(is_true, "P9", || format!("{command:?} is told: {refusal}"))
    }

    /// P2, P3, P7 and P9: the rows after a commit agree with the book.
    pub(super) fn compare_rows(
        &self,
        semaphores: &[(SemaphoreName, Option<SemaphoreRow>)],
        requests: &[(ExternalId, Option<Request>)],
    ) -> Check {
        for (id, row) in requests {
            self.compare_request(id, row.as_ref())?;
        }
        for (name, row) in semaphores {
            self.pools.compare_row(name, row.as_ref())?;
        }
        Ok(())
    }

    fn compare_request(&self, id: &ExternalId, row: Option<&Request>) -> Check {
        let grant = self.grants.get(id);
        let (Some(row), Some(grant)) = (row, grant) else {
            let promise = if row.is_none() { "P9" } else { "P5" };
            return ensure(row.is_none() && grant.is_none(), promise, || {
                format!("the row of {id} is {row:?}, its grant {grant:?}")
            });
        };
        let reason = grant.ended.map(|(_, reason)| reason);
        ensure(row.end_reason() == reason, "P3", || {
            format!(
                "the row of {id} says that it ended {:?}; it did: {reason:?}",
                row.end_reason()
            )
        })?;
        ensure(row.permits == grant.request.permits, "P6", || {
            format!(
                "the row of {id} is {row:?}, it was granted {:?}",
                grant.request
            )
        })?;
        ensure(row.expires_at == grant.request.expires_at, "P8", || {
            format!("the row of {id} expires {:?}: {grant:?}", row.expires_at)
        })
    }

    pub(super) fn permits_of(&self, id: &ExternalId) -> Option<Vec<SemaphoreName>> {
        let permits = self.grants.get(id)?.request.permits.iter();
        Some(permits.map(|permit| permit.semaphore.clone()).collect())
    }

    pub(super) fn capacity(&self, name: &SemaphoreName) -> u32 {
        self.pools.capacity_of(name).unwrap_or(0)
    }

    pub(super) fn room(&self, name: &SemaphoreName) -> u32 {
        self.capacity(name).saturating_sub(self.pools.live(name))
    }

    /// Removes sessions that lapsed longer than `age` ago, of owners that hold nothing: the store purged them.
    pub(super) fn purge_sessions(&mut self, age: Duration, now: Timestamp) {
        let live = self.grants.values().filter(|grant| grant.ended.is_none());
        let holding: BTreeSet<_> = live.filter_map(|g| g.request.owner.clone()).collect();
        self.sessions.retain(|owner, heard| {
            let is_past = heard.is_over || heard.until + age <= now;
            !is_past || holding.contains(owner)
        });
    }

    /// How many permits would be free if all lapsed requests had ended.
    pub(super) fn room_without_lapsed(&self, name: &SemaphoreName, now: Timestamp) -> u32 {
        let held = self.grants.values().filter(|grant| grant.ended.is_none());
        let held = held.filter(|grant| self.lapses(grant).is_none_or(|lapses| lapses > now));
        let permits = held.flat_map(|grant| &grant.request.permits);
        let counts = permits
            .filter(|p| p.semaphore == *name)
            .map(|p| p.count.value());
        self.capacity(name).saturating_sub(counts.sum())
    }

    /// When a live grant ends by itself, if it does.
    pub(super) fn lapses(&self, grant: &Grant) -> Option<Timestamp> {
        let owner = grant.request.owner.as_ref();
        let heard = owner.and_then(|owner| self.sessions.get(owner));
        let silent = heard.map(|heard| heard.until);
        let expires = grant.request.expires_at;
        expires.into_iter().chain(silent).min()
    }
}
