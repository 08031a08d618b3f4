//! Sessions that differ from their answers, and answers with wrong times: P8 and P10.

use lockhouse_core::{Reply, decide};

use super::assert_caught;

/// P10.
#[test]
fn forgetting_a_heartbeat_is_caught() {
    assert_caught("P10", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        decision.changes.heartbeats.clear();
        decision
    });
}

/// P10.
#[test]
fn keeping_the_session_after_a_goodbye_is_caught() {
    assert_caught("P10", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        decision.changes.goodbyes.clear();
        decision
    });
}

/// P10: a later heartbeat in the batch takes the goodbye back.
#[test]
fn forgetting_the_owner_that_came_back_after_its_goodbye_is_caught() {
    assert_caught("P10", |loaded, commands| {
        let before = loaded.owners.clone();
        let mut decision = decide(loaded, commands);
        let said = |outcome| matches!(outcome, &Ok(Reply::Gone { now: true }));
        if decision.outcomes.iter().any(said) {
            let heard = &mut decision.changes.heartbeats;
            heard.retain(|session| !before.contains_key(&session.owner));
        }
        decision
    });
}

/// P10: a heartbeat counts from the store's now, not from the end of the last.
#[test]
fn lengthening_the_last_session_instead_of_starting_a_new_one_is_caught() {
    assert_caught("changes", |loaded, commands| {
        let before = loaded.owners.clone();
        let mut decision = decide(loaded, commands);
        for session in &mut decision.changes.heartbeats {
            if let Some(last) = before.get(&session.owner) {
                session.expires_at = last.expires_at + session.ttl.as_duration();
            }
        }
        decision
    });
}

/// A heartbeat after a session lapsed begins another session.
#[test]
fn going_on_with_a_session_that_had_lapsed_is_caught() {
    assert_caught("answers", |loaded, commands| {
        let before = loaded.owners.clone();
        let mut decision = decide(loaded, commands);
        for outcome in &mut decision.outcomes {
            if let Ok(Reply::Heard { session, began }) = outcome {
                *began &= !before.contains_key(&session.owner);
            }
        }
        decision
    });
}

/// P8: an earlier grant has less than its TTL left.
#[test]
fn telling_the_whole_ttl_of_what_was_granted_before_is_caught() {
    assert_caught("P8", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for outcome in &mut decision.outcomes {
            if let Ok(Reply::Granted { request, lasts, .. }) = outcome {
                *lasts = request.ttl.map(|ttl| ttl.as_duration());
            }
        }
        decision
    });
}
