//! Slots that are handed out twice, in another order, or never again.

use lockhouse_core::{Command, Decision, Reply, SemaphoreName, Slots, decide};

use super::assert_caught;

/// P1.
#[test]
fn handing_a_slot_out_twice_is_caught() {
    assert_caught("P1", |mut loaded, commands| {
        for semaphore in loaded.semaphores.values_mut() {
            semaphore.slots = semaphore.slots.take().map(|_| Slots::default());
        }
        decide(loaded, commands)
    });
}

/// All slots are mirrored, so every other rule holds.
#[test]
fn handing_out_the_highest_slots_is_caught() {
    assert_caught("slots", |mut loaded, commands| {
        let resizes = commands.iter().any(|c| matches!(c, Command::Define(_)));
        let before = loaded.semaphores.clone();
        let turned = |name: &SemaphoreName, slots: &mut Option<Slots>| {
            // A template creates semaphores without slots.
            let Some(capacity) = before.get(name).map(|row| row.capacity.value()) else {
                return;
            };
            let set = slots
                .as_ref()
                .filter(|set| set.iter().all(|slot| slot < capacity));
            if let Some(set) = set {
                *slots = Slots::of(set.iter().map(|slot| capacity - 1 - slot)).ok();
            }
        };
        if resizes {
            return decide(loaded, commands);
        }
        for (name, semaphore) in &mut loaded.semaphores {
            turned(name, &mut semaphore.slots);
        }
        for request in loaded.requests.values_mut() {
            let permits = request.permits.iter_mut();
            let known = permits.filter(|permit| before.contains_key(&permit.semaphore));
            known.for_each(|permit| turned(&permit.semaphore, &mut permit.slots));
        }
        let Decision {
            mut outcomes,
            mut changes,
        } = decide(loaded, commands);
        for semaphore in &mut changes.semaphores {
            let name = semaphore.name.clone();
            turned(&name, &mut semaphore.slots);
        }
        let told = outcomes.iter_mut().filter_map(|outcome| match outcome {
            Ok(Reply::Granted { request, .. }) => Some(request),
            _ => None,
        });
        for request in told.chain(&mut changes.granted) {
            let permits = request.permits.iter_mut();
            let known = permits.filter(|permit| before.contains_key(&permit.semaphore));
            known.for_each(|permit| turned(&permit.semaphore, &mut permit.slots));
        }
        Decision { outcomes, changes }
    });
}

/// P2.
#[test]
fn forgetting_to_give_a_slot_back_is_caught() {
    assert_caught("P2", |loaded, commands| {
        let before = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            let was = before.get(&semaphore.name);
            let was = was.and_then(|semaphore| semaphore.slots.as_ref());
            if let (Some(taken), Some(was)) = (&mut semaphore.slots, was) {
                taken.extend(was);
            }
        }
        decision
    });
}

/// P2.
#[test]
fn losing_the_slots_above_a_smaller_capacity_is_caught() {
    assert_caught("P2", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for change in &decision.changes.capacity_changes {
            let rows = decision.changes.semaphores.iter_mut();
            for row in rows.filter(|row| row.name == change.semaphore) {
                let capacity = change.new_capacity.value();
                let kept = row
                    .slots
                    .as_ref()
                    .map(|slots| slots.iter().filter(|s| *s < capacity));
                row.slots = kept.and_then(|kept| Slots::of(kept).ok());
            }
        }
        decision
    });
}

/// P1: permits from before have no slots, and the first permits afterwards get theirs.
#[test]
fn turning_slots_on_while_permits_are_held_is_caught() {
    assert_caught("P1", |mut loaded, commands| {
        let in_use = loaded.semaphores.clone();
        for semaphore in loaded.semaphores.values_mut() {
            if commands.iter().all(|c| matches!(c, Command::Define(_))) {
                semaphore.in_use = 0;
            }
        }
        let mut decision = decide(loaded, commands);
        for semaphore in &mut decision.changes.semaphores {
            if commands.iter().all(|c| matches!(c, Command::Define(_))) {
                let was = in_use.get(&semaphore.name);
                semaphore.in_use = was.map_or(0, |semaphore| semaphore.in_use);
            }
        }
        decision
    });
}
