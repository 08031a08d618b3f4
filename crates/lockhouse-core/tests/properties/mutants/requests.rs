//! Requests that wrongly end, come back or are granted: P3, P4 and P5.

use std::collections::BTreeSet;

use lockhouse_core::{Command, EndReason, Ended, Loaded, Refusal, Reply, State, decide};

use super::assert_caught;

/// P3.
#[test]
fn ending_again_what_has_ended_is_caught() {
    assert_caught("P3", |mut loaded, commands| {
        revive(&mut loaded, commands);
        decide(loaded, commands)
    });
}

/// P3, and P1: a resize revokes nothing.
#[test]
fn revoking_by_a_resize_is_caught() {
    assert_caught("P3", |loaded, commands| {
        let Loaded { now, requests, .. } = loaded.clone();
        let mut decision = decide(loaded, commands);
        for change in &decision.changes.capacity_changes {
            let holds = requests.values().filter(|request| {
                let mut on = request.permits.iter().map(|permit| &permit.semaphore);
                request.is_live() && on.any(|name| *name == change.semaphore)
            });
            decision.changes.ended.extend(holds.map(|request| Ended {
                external_id: request.external_id.clone(),
                reason: EndReason::Forced,
                at: now,
                by: None,
            }));
        }
        decision
    });
}

/// P4.
#[test]
fn renewing_what_has_expired_is_caught() {
    assert_caught("P4", |mut loaded, commands| {
        let renewed = commands
            .iter()
            .filter(|c| matches!(c, Command::Renew { .. }));
        for id in renewed.filter_map(Command::external_id) {
            if let Some(request) = loaded.requests.get_mut(id) {
                request.expires_at = None;
            }
        }
        decide(loaded, commands)
    });
}

/// P4.
#[test]
fn expiring_what_its_holder_finished_is_caught() {
    assert_caught("P4", |mut loaded, commands| {
        for request in loaded.requests.values_mut() {
            request.finished_at = None;
        }
        decide(loaded, commands)
    });
}

/// P4.
#[test]
fn renewing_what_its_holder_finished_is_caught() {
    assert_caught("P4", |mut loaded, commands| {
        for request in loaded.requests.values_mut() {
            if request.finished_at.take().is_some() {
                request.expires_at = None;
            }
        }
        decide(loaded, commands)
    });
}

/// P3.
#[test]
fn releasing_again_what_its_holder_finished_is_caught() {
    assert_caught("P3", |loaded, commands| {
        let was_finished: BTreeSet<_> = loaded
            .requests
            .values()
            .filter(|request| request.lapse(loaded.now) == Some(EndReason::Released))
            .map(|request| request.external_id.clone())
            .collect();
        let mut decision = decide(loaded, commands);
        for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
            if let (Some(id), Ok(Reply::Ended { now, .. })) = (command.external_id(), outcome) {
                *now |= was_finished.contains(id);
            }
        }
        decision
    });
}

/// P4.
#[test]
fn claiming_to_renew_what_has_ended_is_caught() {
    assert_caught("P4", |loaded, commands| {
        let requests = loaded.requests.clone();
        let mut decision = decide(loaded, commands);
        for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
            if let Command::Renew { external_id, .. } = command
                && let Some(request) = requests.get(external_id)
            {
                *outcome = Ok(Reply::Renewed(request.clone()));
            }
        }
        decision
    });
}

/// P5.
#[test]
fn a_second_grant_after_the_end_is_caught() {
    assert_caught("P5", |mut loaded, commands| {
        loaded.requests.retain(|_, request| request.is_live());
        decide(loaded, commands)
    });
}

/// P5.
#[test]
fn granting_another_ask_under_the_same_id_is_caught() {
    assert_caught("P5", |loaded, commands| {
        let requests = loaded.requests.clone();
        let mut decision = decide(loaded, commands);
        for outcome in &mut decision.outcomes {
            if let Err(Refusal::IdempotencyConflict(id)) = outcome
                && let Some(request) = requests.get(id).cloned()
            {
                *outcome = Ok(Reply::Granted {
                    request,
                    now: false,
                    lasts: None,
                });
            }
        }
        decision
    });
}

/// P5.
#[test]
fn a_trace_of_a_refused_ask_is_caught() {
    assert_caught("P5", |mut loaded, commands| {
        let (now, held) = (loaded.now, loaded.semaphores.clone());
        let mut decision = decide(loaded.clone(), commands);
        if let ([Command::Acquire { .. }], [Err(Refusal::Exhausted(_))]) =
            (commands, &decision.outcomes[..])
        {
            loaded
                .semaphores
                .values_mut()
                .for_each(|row| row.in_use = 0);
            decision.changes.granted = decide(loaded, commands).changes.granted;
            for request in &mut decision.changes.granted {
                let reason = EndReason::Stale;
                request.state = State::Released { reason, at: now };
            }
            decision.changes.semaphores = held.into_values().collect();
        }
        decision
    });
}

/// Makes ended requests that `commands` end live again, if their semaphores are loaded.
fn revive(loaded: &mut Loaded, commands: &[Command]) {
    let ends = commands.iter().filter(|c| matches!(c, Command::End { .. }));
    let ids: BTreeSet<_> = ends.filter_map(Command::external_id).collect();
    for request in loaded.requests.values_mut() {
        let mut on = request.permits.iter().map(|permit| &permit.semaphore);
        let complete = on.all(|name| loaded.semaphores.contains_key(name));
        if complete && ids.contains(&request.external_id) {
            request.state = State::Acquired;
        }
    }
}
