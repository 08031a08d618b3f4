//! Applies the outcomes of a batch: to the grant cache, to the waiting line, and to the calls that
//! sent the commands.

use lockhouse_core::{Code, Command, EndReason, PlaceInLine, Refusal, Reply, Ttl};
use tokio::sync::oneshot;

use super::grant_cache::GrantCache;
use super::lane::{Decided, SetAside};
use super::reply_to::{Answer, Caller, ReplyTo};
use super::state::EngineState;
use super::waiting::{Answered, Observed, WaitingLine};

/// An answer on its way.
#[derive(Debug)]
pub(super) enum Response {
    Caller(oneshot::Sender<Answer>, Answer),
    Waiter(oneshot::Sender<Answered>, Answered),
}

impl Response {
    /// Whether this is the command's last response.
    fn is_final(&self) -> bool {
        !matches!(self, Response::Caller(_, Answer::Waits(_)))
    }

    pub(super) fn send(self) {
        // The send fails if the caller went away, which does no harm.
        match self {
            Response::Caller(to, answer) => drop(to.send(answer)),
            Response::Waiter(to, answer) => drop(to.send(answer)),
        }
    }
}

/// Records what was decided, in the order of the decisions, and queues the waiters that may now be
/// served.
pub(super) fn apply_outcomes(
    state: &mut EngineState,
    grants: &GrantCache,
    decided: impl IntoIterator<Item = Decided>,
) -> Vec<Response> {
    let mut responses = Vec::new();
    for done in decided {
        let waiting = &mut state.waiting;
        waiting.expect_no_more(&done.frees);
        note(&done, grants, waiting);
        let refused = refusal(&done.answer).and(done.command.ask());
        let refused = refused.map(|ask| ask.external_id.clone());
        let one = match done.reply_to {
            ReplyTo::Caller(caller) => answer_caller(waiting, caller, done.command, done.answer),
            ReplyTo::Waiter(place) => answer_waiter(waiting, place, done.answer),
            ReplyTo::Engine => None,
        };
        if let (Some(refused), Some(one)) = (refused, &one)
            && one.is_final()
        {
            grants.refuse(&refused);
        }
        responses.extend(one);
    }
    state.call();
    responses
}

/// Has the commands that were set aside stand in line, or blocks them. Semaphores that the lane no
/// longer needs are free for other lanes.
pub(super) fn apply_set_aside(
    state: &mut EngineState,
    grants: &GrantCache,
    set_aside: SetAside,
) -> Vec<Response> {
    let responses = apply_outcomes(state, grants, set_aside.lacking);
    for semaphore in &set_aside.seen {
        state.waiting.see(semaphore, None, Observed::Unordered);
    }
    for (queued, locked) in set_aside.blocked {
        state.block_on(queued, &locked);
    }
    state.queue.free(&set_aside.freed);
    state.call();
    responses
}

fn note(done: &Decided, grants: &GrantCache, waiting: &mut WaitingLine) {
    match (&done.command, &done.answer) {
        (_, Ok(Ok(Reply::Ended { request, now, .. }))) if !request.is_live() => {
            grants.remove(&request.external_id);
            // An expired or finished request ends with the first command that touches it.
            let was_over =
                request.end_reason() == Some(EndReason::Expired) || request.finished_at.is_some();
            if *now || was_over {
                for permit in &request.permits {
                    waiting.free(&permit.semaphore, permit.count);
                }
            }
        }
        // The request may have ended with this very command, since its TTL had passed: then its
        // permits came back.
        (_, Ok(Err(Refusal::RequestEnded { external_id, .. }))) => {
            for (name, count) in grants.remove(external_id) {
                waiting.free(&name, count);
            }
        }
        (_, Ok(Ok(Reply::Renewed(request)))) => {
            grants.hold(&request.external_id, request.ttl.map(Ttl::as_duration));
        }
        (
            _,
            Ok(Ok(Reply::Granted {
                request,
                now,
                lasts,
            })),
        ) => {
            grants.hold(&request.external_id, *lasts);
            let permits = if *now { &request.permits[..] } else { &[] };
            waiting.grant(&request.external_id, permits);
        }
        (_, Ok(Ok(Reply::Defined { semaphore, .. }))) => {
            waiting.see(semaphore, None, Observed::InOrder);
        }
        (_, Ok(Ok(Reply::Seen { semaphore, at }))) => {
            waiting.see(semaphore, Some(*at), Observed::InOrder);
        }
        (_, Ok(Ok(Reply::Followed { semaphore, .. }))) if semaphore.exists() => {
            waiting.see(semaphore, None, Observed::InOrder);
        }
        (Command::Follow { name }, Ok(Ok(Reply::Followed { .. })))
        | (Command::Delete { name }, Ok(Ok(Reply::Deleted))) => waiting.delete(name),
        (_, Ok(Err(Refusal::UnknownSemaphore(names)))) => {
            names.iter().for_each(|name| waiting.delete(name));
        }
        _ => {}
    }
}

fn answer_caller(
    waiting: &mut WaitingLine,
    caller: Caller,
    command: Command,
    answer: Answered,
) -> Option<Response> {
    let Caller {
        ticket, answer: to, ..
    } = caller;
    let (Some(ticket), Command::Acquire { ask, .. }) = (ticket, command) else {
        return Some(Response::Caller(to, Answer::Decided(answer)));
    };
    let Some(refusal) = refusal(&answer) else {
        if answer.is_err() && !ticket.wait.is_over(waiting.now()) {
            waiting.keep(&ticket, &ask);
        }
        return Some(Response::Caller(to, Answer::Decided(answer)));
    };
    let may_wait = is_exhausted(refusal) || ticket.is_back && exceeds(refusal);
    if !may_wait || ticket.wait.is_over(waiting.now()) || to.is_closed() {
        waiting.refuse(&ask, refusal);
        return Some(Response::Caller(to, Answer::Decided(for_caller(answer))));
    }
    let (sender, answered) = oneshot::channel();
    if !waiting.park(ticket, ask, refusal, sender) {
        return Some(Response::Caller(to, Answer::Overloaded));
    }
    Some(Response::Caller(to, Answer::Waits(answered)))
}

fn answer_waiter(
    waiting: &mut WaitingLine,
    place: PlaceInLine,
    answer: Answered,
) -> Option<Response> {
    let waiter = waiting.get(place)?;
    let goes_on = !waiter.answer.is_closed() && !waiter.ticket.wait.is_over(waiting.now());
    let lacks = refusal(&answer).filter(|refusal| is_exhausted(refusal) || exceeds(refusal));
    let Some(refusal) = lacks else {
        let waiter = waiting.remove(place)?;
        if answer.is_err() {
            // The caller will retry, and the error was not its fault.
            waiting.keep(&waiter.ticket, &waiter.ask);
        }
        return Some(Response::Waiter(waiter.answer, answer));
    };
    waiting.refuse_waiter(place, refusal);
    if goes_on {
        return None;
    }
    let waiter = waiting.remove(place)?;
    Some(Response::Waiter(waiter.answer, Ok(Err(waiter.refused))))
}

fn refusal(answer: &Answered) -> Option<&Refusal> {
    answer.as_ref().ok()?.as_ref().err()
}

fn is_exhausted(refusal: &Refusal) -> bool {
    refusal.code() == Code::Exhausted
}

fn exceeds(refusal: &Refusal) -> bool {
    refusal.code() == Code::ExceedsCapacity
}

/// A caller gets the same answer whether there is no room or other waiters come first.
fn for_caller(answer: Answered) -> Answered {
    match answer {
        Ok(Err(Refusal::OthersFirst(names))) => Ok(Err(Refusal::Exhausted(names))),
        other => other,
    }
}
