//! Compares the answers to callers with the book (the [ledger](super::ledger)): no answer may be false.
//!
//! A call that was dropped, or whose outcome is unknown, may still take effect. From then on the check accepts more states
//! of its request. The same holds for a request on which several calls are under way.

use std::sync::Arc;

use lockhouse::{Ask, Code, EndReason, Error, ExternalId, Permit, Refusal, Released, Request};

use super::ledger::Grant;
use super::violation::{Check, ensure};
use super::world::World;

/// A call under way. Dropping it means that its caller went away.
pub(super) struct Call {
    world: Arc<World>,
    id: Option<ExternalId>,
    /// The last commit before the call.
    since: u64,
    jumps: u32,
    /// The number of its waiter.
    turn: Option<u64>,
}

impl Call {
    /// A call on `id`, of which only the answer is checked.
    pub(super) fn on(world: &Arc<World>, id: &ExternalId) -> Self {
        let mut notes = world.notes();
        notes.answers.begin(id);
        Self {
            world: Arc::clone(world),
            id: Some(id.clone()),
            since: notes.ledger.commit,
            jumps: notes.jumps,
            turn: None,
        }
    }

    /// A call for `ask` at `server`.
    pub(super) fn for_ask(world: &Arc<World>, server: &str, ask: &Ask, waits: bool) -> Self {
        let now_us = world.elapsed_us();
        let mut call = Self::on(world, &ask.external_id);
        let turn = world
            .notes()
            .turns
            .begin(server, ask, waits, now_us, call.since);
        call.turn = Some(turn);
        call
    }

    pub(super) fn granted(mut self, ask: &Ask, answer: &Result<(Request, bool), Error>) {
        let check = self.check_granted(ask, answer);
        let new = answer.as_ref().ok().filter(|(_, now)| *now);
        self.end_turn(new.map(|(request, _)| request));
        self.close(answer.as_ref().err(), check);
    }

    /// The same for a permit, whose id is not known before.
    pub(super) fn held(mut self, answer: &Result<Permit, Error>) {
        self.end_turn(answer.as_ref().ok().map(Permit::request));
        self.close(answer.as_ref().err(), Ok(()));
    }

    pub(super) fn ended(self, why: EndReason, answer: &Result<Released, Error>) {
        let check = self.check_ended(why, answer);
        self.close(answer.as_ref().err(), check);
    }

    pub(super) fn renewed(self, answer: &Result<Request, Error>) {
        let check = self.check_renewed(answer);
        self.close(answer.as_ref().err(), check);
    }

    fn close(mut self, error: Option<&Error>, check: Check) {
        let Some(id) = self.id.take() else { return };
        let mut notes = self.world.notes();
        notes.answers.end(&id);
        if error.is_some_and(Error::maybe_applied) {
            notes.answers.muddled.insert(id);
        }
        drop(notes);
        self.world.found(check);
        if let Some(error) = error {
            self.world.found(may_be_told(&self.world, error));
        }
    }

    fn end_turn(&mut self, granted: Option<&Request>) {
        if let Some(turn) = self.turn.take() {
            self.world.notes().turns.end(turn, granted);
        }
    }

    fn id(&self) -> &ExternalId {
        self.id.as_ref().expect("it is open")
    }

    fn check_granted(&self, ask: &Ask, answer: &Result<(Request, bool), Error>) -> Check {
        let now = self.world.now();
        let mut notes = self.world.notes();
        let (id, jumps) = (self.id(), notes.jumps);
        let is_clear = !notes.answers.muddled.contains(id);
        let first = match answer {
            Ok((_, true)) => notes.answers.granted.insert(id.clone()),
            _ => true,
        };
        let grant = notes.ledger.grants.get(id);
        let told = || format!("{id} is told {answer:?}, its grant is {grant:?}");
        match answer {
            Ok((request, is_now)) => {
                let permits = grant.map(|grant| &grant.request.permits);
                ensure(permits == Some(&request.permits) && first, "P5", told)?;
                ensure(!self.was_over(grant) && ask.is_that_of(request), "P5", told)?;
                let is_new = grant.is_some_and(|grant| grant.granted > self.since);
                ensure(is_new || !is_now, "P5", told)?;
                let is_past = request.expires_at.is_some_and(|at| at <= now);
                ensure(!is_past || jumps != self.jumps, "P8", || {
                    format!("{id} is told at {now} of a grant that expired: {request:?}")
                })
            }
            Err(Error::Refused(Refusal::RequestEnded { reason, .. })) => {
                let its = grant.map(|grant| grant.ended.map(|(_, reason)| reason));
                let is_true =
                    its == Some(Some(*reason)) || its.is_some() && *reason == EndReason::Expired;
                ensure(is_true, "P5", told)
            }
            Err(Error::Refused(Refusal::IdempotencyConflict(_))) => ensure(
                grant.is_some_and(|g| !ask.is_that_of(&g.request)),
                "P5",
                told,
            ),
            Err(error) => {
                let is_no = !error.maybe_applied();
                let is_new = grant.is_some_and(|grant| grant.granted > self.since);
                // An error says nothing about the state before the call.
                let holds = matches!(error, Error::Refused(_)) && !self.was_over(grant);
                let is_held = grant.is_some() && (is_new || holds);
                ensure(!(is_no && is_clear && is_held), "P9", told)
            }
        }
    }

    fn check_ended(&self, why: EndReason, answer: &Result<Released, Error>) -> Check {
        let mut notes = self.world.notes();
        let id = self.id();
        let is_sure = !notes.answers.ends_lost.contains(id);
        let first = match answer {
            Ok(Released { now: true, .. }) => notes.answers.ended.insert(id.clone()),
            _ => true,
        };
        let is_clear = !notes.answers.muddled.contains(id);
        let grant = notes.ledger.grants.get(id);
        let ended = grant.and_then(|grant| grant.ended);
        let by_this = ended.is_some_and(|(at, its)| at > self.since && its == why);
        let told = || format!("{id} is told {answer:?}, its grant is {grant:?}");
        // A request without an owner can have no other caller that released it.
        let is_owned = grant.is_some_and(|grant| grant.request.owner.is_some());
        let is_ours = by_this && is_clear && !is_owned;
        match answer {
            Ok(Released { request, now, .. }) => {
                let is_true = ended.is_some_and(|(_, its)| request.end_reason() == Some(its));
                ensure(is_true, "P9", told)?;
                ensure(!now || !is_sure || first && by_this, "P3", told)?;
                ensure(*now || !is_ours, "P9", told)
            }
            Err(Error::Refused(refusal)) => self.check_refused(grant, refusal, &told),
            Err(error) => ensure(error.maybe_applied() || !is_ours, "P9", told),
        }
    }

    fn check_renewed(&self, answer: &Result<Request, Error>) -> Check {
        let notes = self.world.notes();
        let id = self.id();
        let grant = notes.ledger.grants.get(id);
        let told = || format!("{id} is told {answer:?}, its grant is {grant:?}");
        match answer {
            Ok(request) => {
                ensure(!self.was_over(grant), "P4", told)?;
                let expiries = grant.map(|grant| &grant.expiries);
                let is_its = expiries.zip(request.expires_at);
                ensure(
                    is_its.is_some_and(|(all, at)| all.contains(&at)),
                    "P9",
                    told,
                )
            }
            Err(Error::Refused(refusal)) => self.check_refused(grant, refusal, &told),
            Err(_) => Ok(()),
        }
    }

    fn check_refused(
        &self,
        grant: Option<&Grant>,
        refusal: &Refusal,
        told: &impl Fn() -> String,
    ) -> Check {
        match refusal {
            Refusal::UnknownRequest(_) => {
                let was_there = grant.is_some_and(|grant| grant.granted <= self.since);
                ensure(!was_there, "P9", told)
            }
            Refusal::RequestEnded { reason, .. } => {
                let its = grant.and_then(|grant| grant.ended);
                ensure(its.is_some_and(|(_, its)| its == *reason), "P4", told)
            }
            _ => Ok(()),
        }
    }

    /// Whether the grant had ended before the call.
    fn was_over(&self, grant: Option<&Grant>) -> bool {
        let ended = grant.and_then(|grant| grant.ended);
        ended.is_some_and(|(at, _)| at <= self.since)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end_turn(None);
        if let Some(id) = &self.id {
            let mut notes = self.world.notes();
            notes.answers.end(id);
            notes.answers.muddled.insert(id.clone());
        }
    }
}

/// Whether a call may get this error.
pub(super) fn may_be_told(world: &World, error: &Error) -> Check {
    let may_be = match error.code() {
        Code::StoreUnavailable => !world.is_quiet,
        // The store rejected the batch.
        Code::Internal => matches!(error, Error::Store(_)) && !world.is_quiet,
        Code::InvalidRequest => matches!(error, Error::Refused(_)),
        Code::Overloaded | Code::CapacityChanged => false,
        _ => true,
    };
    ensure(may_be, "answers", || format!("a call is told {error:?}"))
}

/// P8: a permit has not expired when its caller gets it, or its holder knows it to be lost. A slow call may have renewed
/// it on the way. The clock had been set `jumps` times when the call began.
pub(super) fn check_permit(world: &World, permit: &Permit, jumps: u32) -> Check {
    let now = world.now();
    let notes = world.notes();
    let id = permit.external_id();
    let grant = notes.ledger.grants.get(id);
    ensure(grant.is_some(), "P9", || {
        format!("{id} is handed over and was never granted")
    })?;
    let expires = grant.and_then(|grant| grant.request.expires_at);
    let has_expired = expires.is_some_and(|at| at <= now) && jumps == notes.jumps;
    drop(notes);
    ensure(!has_expired || permit.is_lost(), "P8", || {
        format!("{id} is handed over at {now}, has expired, and takes itself to be held")
    })
}
