//! Applies the outcomes of a batch: to the grant cache, to the waiting line, and to the calls that asked.

use lockhouse_core::{Code, Command, EndReason, Place, Refusal, Reply, Ttl};
use tokio::sync::oneshot;

use super::grant_cache::GrantCache;
use super::lane::Decided;
use super::reply_to::{Answer, Caller, Parked, ReplyTo, Response};
use super::waiting::{Answered, Observed, WaitingLine};

/// Applies what was `decided`, in its order; the answers to send.
pub(super) fn apply_outcomes(
    waiting: &mut WaitingLine,
    grants: &GrantCache,
    decided: Vec<Decided>,
) -> Vec<Response> {
    let mut responses = Vec::with_capacity(decided.len());
    for done in decided {
        waiting.expect_no_more(&done.frees);
        note(&done, grants, waiting);
        let refused = refusal(&done.answer).and(done.command.ask());
        let refused = refused.map(|ask| ask.external_id.clone());
        let response = match done.reply_to {
            ReplyTo::Caller(caller) => {
                Some(answer_caller(waiting, caller, done.command, done.answer))
            }
            ReplyTo::Waiter(place) => answer_waiter(waiting, place, done.answer),
            ReplyTo::Engine => None,
        };
        let is_final = !matches!(response, None | Some(Response::Waits(..)));
        if let Some(refused) = refused.filter(|_| is_final) {
            grants.refuse(&refused);
        }
        responses.extend(response);
    }
    responses
}

fn note(done: &Decided, grants: &GrantCache, waiting: &mut WaitingLine) {
    match (&done.command, &done.answer) {
        (_, Ok(Ok(Reply::Ended { request, now, .. }))) if !request.is_live() => {
            grants.remove(&request.external_id);
            // What was past its time ended by whatever touched it.
            if *now || request.end_reason() == Some(EndReason::Expired) {
                for permit in &request.permits {
                    waiting.free(&permit.semaphore, permit.count);
                }
            }
        }
        // Perhaps only now, as its time had passed: then its permits came back.
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
        (Command::Delete { name }, Ok(Ok(Reply::Deleted))) => waiting.delete(name),
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
) -> Response {
    let Caller {
        ticket, answer: to, ..
    } = caller;
    let (Some(ticket), Some(refusal), Command::Acquire { ask, .. }) =
        (ticket, refusal(&answer), command)
    else {
        return Response::Caller(to, Answer::Decided(answer));
    };
    let may_wait = is_exhausted(refusal) || ticket.is_back && exceeds(refusal);
    if !may_wait || ticket.wait.is_over() || to.is_closed() {
        waiting.refuse(&ask, refusal);
        return Response::Caller(to, Answer::Decided(to_a_caller(answer)));
    }
    let (place, wait) = (ticket.place, ticket.wait);
    let (sender, answered) = oneshot::channel();
    if !waiting.park(ticket, ask, refusal, sender) {
        return Response::Caller(to, Answer::Overloaded);
    }
    let parked = Parked {
        place,
        wait,
        answered,
    };
    Response::Waits(to, parked)
}

fn answer_waiter(waiting: &mut WaitingLine, place: Place, answer: Answered) -> Option<Response> {
    let waiter = waiting.get(place)?;
    let goes_on = !waiter.answer.is_closed() && !waiter.ticket.wait.is_over();
    let lacks = refusal(&answer).filter(|refusal| is_exhausted(refusal) || exceeds(refusal));
    let Some(refusal) = lacks else {
        let waiter = waiting.remove(place)?;
        if answer.is_err() {
            // It will ask again, and was not to blame.
            waiting.keep(&waiter);
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

/// A caller is answered `exhausted` also where there is room that others come first for.
fn to_a_caller(answer: Answered) -> Answered {
    match answer {
        Ok(Err(Refusal::OthersFirst(names))) => Ok(Err(Refusal::Exhausted(names))),
        other => other,
    }
}
