//! Correct ends that are saved wrongly.

use lockhouse_core::{Ended, Freed, SemaphoreRow, State, decide};

use super::assert_caught;

#[test]
fn writing_what_did_not_change_is_caught() {
    assert_caught("changes", |loaded, commands| {
        let mut all = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        let written = decision.changes.semaphores.into_iter();
        all.extend(written.map(|row| (row.name.clone(), row)));
        decision.changes.semaphores = all.into_values().collect();
        decision
    });
}

#[test]
fn changes_out_of_order_are_caught() {
    assert_caught("changes", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        decision.changes.granted.reverse();
        decision
    });
}

/// Another ask in the batch may have been granted the permits of a release.
#[test]
fn a_notification_for_each_release_is_caught() {
    assert_caught("changes", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        if !decision.changes.ended.is_empty() {
            let written = decision.changes.semaphores.iter();
            decision.changes.freed = written.map(to_anybody).collect();
        }
        decision
    });
}

#[test]
fn ending_apart_what_is_inserted_is_caught() {
    assert_caught("changes", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for request in &mut decision.changes.granted {
            if let State::Released { reason, at } = request.state {
                request.state = State::Acquired;
                decision.changes.ended.push(Ended {
                    external_id: request.external_id.clone(),
                    reason,
                    at,
                    by: request.ended_by.take(),
                });
            }
        }
        decision
    });
}

fn to_anybody(row: &SemaphoreRow) -> Freed {
    Freed {
        semaphore: row.name.clone(),
        left_to: None,
    }
}
