//! Resizes that ignore their expected capacity, or are too strict about it.

use lockhouse_core::{Command, Decision, Definition, Loaded, Refusal, SemaphoreRow, decide};

use super::assert_caught;

#[test]
fn a_resize_that_ignores_what_was_expected_is_caught() {
    assert_caught("changes", |loaded, commands| {
        on_definitions(loaded, commands, |_, wanted| {
            wanted.must_exist |= wanted.expected.take().is_some();
        })
    });
}

#[test]
fn resizing_in_spite_of_if_missing_is_caught() {
    assert_caught("changes", |loaded, commands| {
        on_definitions(loaded, commands, |_, wanted| wanted.if_missing = false)
    });
}

#[test]
fn creating_what_was_expected_to_have_a_capacity_is_caught() {
    assert_caught("changes", |loaded, commands| {
        on_definitions(loaded, commands, |semaphore, wanted| {
            if !semaphore.is_some_and(SemaphoreRow::exists) {
                wanted.expected = None;
            }
        })
    });
}

/// A repeated resize gets the answer of the first, though the capacity differs from the expected one since.
#[test]
fn refusing_a_resize_that_was_done_already_is_caught() {
    assert_caught("answers", |loaded, commands| {
        let before = loaded.semaphores.clone();
        let mut decision = decide(loaded, commands);
        for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
            if let Command::Define(wanted) = command
                && let Some(expected) = wanted.expected
                && let Some(semaphore) = before.get(&wanted.name)
                && semaphore.capacity != expected
            {
                *outcome = Err(Refusal::CapacityChanged {
                    name: wanted.name.clone(),
                    expected,
                    capacity: semaphore.capacity,
                });
            }
        }
        decision
    });
}

/// Decides with the definitions changed by `change`, which gets the loaded semaphore.
fn on_definitions(
    loaded: Loaded,
    commands: &[Command],
    change: impl Fn(Option<&SemaphoreRow>, &mut Definition),
) -> Decision {
    let mut changed = commands.to_vec();
    for command in &mut changed {
        if let Command::Define(wanted) = command {
            change(loaded.semaphores.get(&wanted.name), wanted);
        }
    }
    decide(loaded, &changed)
}
