//! Wrong counts, partial grants and wrong fences: P1, P2, P6 and P7.

use lockhouse_core::{Capacity, Changes, Command, Decision, Reply, decide};

use super::assert_caught;

/// P1.
#[test]
fn granting_one_over_capacity_is_caught() {
    assert_caught("P1", |mut loaded, commands| {
        if commands.iter().any(|c| matches!(c, Command::Define(_))) {
            return decide(loaded, commands);
        }
        let resize = |capacity: &mut Capacity, by: i64| {
            if let Ok(resized) = Capacity::new(i64::from(capacity.value()) + by) {
                *capacity = resized;
            }
        };
        for semaphore in loaded.semaphores.values_mut() {
            resize(&mut semaphore.capacity, 1);
        }
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            resize(&mut semaphore.capacity, -1);
        }
        decision
    });
}

/// P2.
#[test]
fn forgetting_to_give_back_is_caught() {
    assert_caught("P2", |loaded, commands| {
        let before = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            semaphore.in_use = semaphore
                .in_use
                .max(before.get(&semaphore.name).map_or(0, |was| was.in_use));
        }
        decision
    });
}

/// P2.
#[test]
fn forgetting_to_count_a_grant_is_caught() {
    assert_caught("P2", |loaded, commands| {
        let before = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            semaphore.in_use = semaphore
                .in_use
                .min(before.get(&semaphore.name).map_or(0, |was| was.in_use));
        }
        decision
    });
}

/// P2: each command must see the effects of the commands before it in the batch.
#[test]
fn deciding_each_command_on_what_was_loaded_is_caught() {
    assert_caught("P2", |loaded, commands| {
        let mut outcomes = Vec::new();
        let mut changes = Changes::default();
        for command in commands {
            let one = decide(loaded.clone(), std::slice::from_ref(command));
            outcomes.extend(one.outcomes);
            changes.semaphores.extend(one.changes.semaphores);
            changes.granted.extend(one.changes.granted);
            changes.renewed.extend(one.changes.renewed);
            changes.ended.extend(one.changes.ended);
            changes.heartbeats.extend(one.changes.heartbeats);
            changes.goodbyes.extend(one.changes.goodbyes);
            changes.freed.extend(one.changes.freed);
        }
        Decision { outcomes, changes }
    });
}

/// P6.
#[test]
fn dropping_a_permit_of_a_grant_is_caught() {
    assert_caught("P6", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for request in &mut decision.changes.granted {
            if request.permits.len() > 1 {
                request.permits.pop();
            }
        }
        decision
    });
}

/// P6.
#[test]
fn forgetting_to_save_a_grant_is_caught() {
    assert_caught("P6", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        decision.changes.granted.pop();
        decision
    });
}

/// P7.
#[test]
fn using_a_fence_twice_is_caught() {
    assert_caught("P7", |loaded, commands| {
        let before = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            semaphore.fence = before.get(&semaphore.name).map_or(0, |was| was.fence);
        }
        let granted = decision
            .outcomes
            .iter_mut()
            .filter_map(|outcome| match outcome {
                Ok(Reply::Granted {
                    request, now: true, ..
                }) => Some(request),
                _ => None,
            });
        for request in granted.chain(&mut decision.changes.granted) {
            for permit in &mut request.permits {
                permit.fence = before.get(&permit.semaphore).map_or(0, |was| was.fence);
            }
        }
        decision
    });
}

/// P7.
#[test]
fn restarting_fences_at_re_creation_is_caught() {
    assert_caught("P7", |mut loaded, commands| {
        for semaphore in loaded.semaphores.values_mut() {
            if !semaphore.exists() {
                semaphore.fence = 0;
            }
        }
        decide(loaded, commands)
    });
}

/// P7.
#[test]
fn answering_before_the_fence_is_known_is_caught() {
    assert_caught("P7", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for outcome in &mut decision.outcomes {
            if let Ok(Reply::Granted {
                request, now: true, ..
            }) = outcome
            {
                request
                    .permits
                    .iter_mut()
                    .for_each(|permit| permit.fence = 0);
            }
        }
        decision
    });
}
