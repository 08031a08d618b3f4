//! Requests that end for a cause that does not hold, or with a wrong answer: P3.

use std::time::Duration;

use lockhouse_core::{
    Cause, Command, Decision, EndReason, Loaded, Owner, OwnerSession, Reply, Timestamp, decide,
};

use super::assert_caught;
use crate::words::ttl;

/// P3: a heartbeat that came before the sweep wins.
#[test]
fn ending_a_silent_owner_s_request_though_it_was_heard_again_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        for session in loaded.owners.values_mut() {
            session.expires_at = loaded.now;
        }
        decide(loaded, commands)
    });
}

/// P3: so does a heartbeat earlier in the same batch.
#[test]
fn sweeping_before_the_heartbeats_of_the_batch_is_caught() {
    assert_caught("P3", |loaded, commands| {
        let mut order: Vec<usize> = (0..commands.len()).collect();
        order.sort_by_key(|i| matches!(commands[*i], Command::Heartbeat { .. }));
        let reordered: Vec<_> = order.iter().map(|i| commands[*i].clone()).collect();
        let mut decision = decide(loaded, &reordered);
        let mut answered: Vec<_> = order.into_iter().zip(decision.outcomes).collect();
        answered.sort_by_key(|(i, _)| *i);
        decision.outcomes = answered.into_iter().map(|(_, outcome)| outcome).collect();
        decision
    });
}

/// P10.
#[test]
fn going_on_with_a_session_that_has_ended_is_caught() {
    assert_caught("P10", |loaded, commands| {
        let mut commands = commands.to_vec();
        for command in &mut commands {
            if let Command::Heartbeat { must_exist, .. } = command {
                *must_exist = false;
            }
        }
        decide(loaded, &commands)
    });
}

/// P3: an owner that never sent a heartbeat can't fall silent.
#[test]
fn taking_an_owner_without_a_session_for_silent_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        let now = loaded.now;
        let ends = commands.iter().filter(|c| matches!(c, Command::End { .. }));
        for owner in ends.filter_map(Command::session_of) {
            let lapsed = || session(owner, now);
            loaded.owners.entry(owner.clone()).or_insert_with(lapsed);
        }
        decide(loaded, commands)
    });
}

/// P3.
#[test]
fn ending_a_request_of_another_owner_that_is_gone_is_caught() {
    assert_caught("P3", |loaded, commands| {
        on_causes(loaded, commands, |loaded, command, cause| {
            let request = command.external_id().and_then(|id| loaded.requests.get(id));
            if let (Cause::OwnerGone { owner }, Some(its)) =
                (cause, request.and_then(|request| request.owner.clone()))
            {
                *owner = its;
            }
        })
    });
}

/// P3.
#[test]
fn ending_a_request_of_another_owner_that_is_silent_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        for command in commands {
            if let Command::End { external_id, cause } = command
                && let Cause::OwnerSilent { owner } = cause
                && let Some(request) = loaded.requests.get_mut(external_id)
            {
                request.owner = Some(owner.clone());
            }
        }
        decide(loaded, commands)
    });
}

/// P3.
#[test]
fn ending_a_stale_request_that_has_a_ttl_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        for command in commands {
            if let Command::End { external_id, cause } = command
                && let Cause::Stale { age, .. } = cause
                && let Some(request) = loaded.requests.get_mut(external_id)
                && request.created_at + *age <= loaded.now
            {
                request.ttl = None;
            }
        }
        decide(loaded, commands)
    });
}

/// P3.
#[test]
fn ending_as_stale_what_is_too_young_is_caught() {
    assert_caught("P3", |loaded, commands| {
        on_causes(loaded, commands, |_, _, cause| {
            if let Cause::Stale { age, .. } = cause {
                *age = Duration::ZERO;
            }
        })
    });
}

/// P3: a session keeps its owner's requests as long as it lasts.
#[test]
fn ending_as_stale_what_a_session_keeps_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        for command in commands {
            if let Command::End { cause, .. } = command
                && let Cause::Stale { owner, .. } = cause
            {
                loaded.owners.retain(|who, _| Some(who) != owner.as_ref());
            }
        }
        decide(loaded, commands)
    });
}

/// P3.
#[test]
fn ending_as_stale_a_request_of_another_owner_is_caught() {
    assert_caught("P3", |loaded, commands| {
        on_causes(loaded, commands, |loaded, command, cause| {
            let request = command.external_id().and_then(|id| loaded.requests.get(id));
            if let (Cause::Stale { owner, .. }, Some(request)) = (cause, request) {
                *owner = request.owner.clone();
            }
        })
    });
}

/// P3: a read without locks that said so is not enough.
#[test]
fn ending_what_seemed_due_without_looking_again_is_caught() {
    assert_caught("P3", |loaded, commands| {
        on_causes(loaded, commands, |_, _, cause| {
            if !matches!(cause, Cause::Released { .. } | Cause::Expired) {
                *cause = Cause::Forced { by: None };
            }
        })
    });
}

/// P3.
#[test]
fn forgetting_the_caller_of_a_forced_end_is_caught() {
    assert_caught("P3", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for ended in &mut decision.changes.ended {
            ended.by = None;
        }
        decision
    });
}

/// P3: an operator does not end a request that had expired.
#[test]
fn naming_an_operator_for_what_had_expired_is_caught() {
    assert_caught("P3", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        let by = commands.iter().find_map(|command| match command {
            Command::End { cause, .. } => cause.by().cloned(),
            _ => None,
        });
        for ended in &mut decision.changes.ended {
            if ended.reason == EndReason::Expired {
                ended.by = by.clone();
            }
        }
        decision
    });
}

/// A sweep that finds an expired request is told that it ended the request, whatever it was looking for.
#[test]
fn not_counting_what_had_expired_as_ended_is_caught() {
    assert_caught("answers", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
            if let Command::End { cause, .. } = command
                && *cause != Cause::Expired
                && let Ok(Reply::Ended { request, now, .. }) = outcome
                && request.end_reason() == Some(EndReason::Expired)
            {
                *now = false;
            }
        }
        decision
    });
}

fn session(owner: &Owner, expires_at: Timestamp) -> OwnerSession {
    OwnerSession {
        owner: owner.clone(),
        ttl: ttl(1),
        expires_at,
    }
}

/// Decides with the causes changed by `change`.
fn on_causes(
    loaded: Loaded,
    commands: &[Command],
    change: impl Fn(&Loaded, &Command, &mut Cause),
) -> Decision {
    let mut changed = commands.to_vec();
    for (command, changed) in commands.iter().zip(&mut changed) {
        if let Command::End { cause, .. } = changed {
            change(&loaded, command, cause);
        }
    }
    decide(loaded, &changed)
}
