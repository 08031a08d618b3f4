//! Semaphores of templates that are wrongly created, resized and deleted: P2, P5 and P7. The model finds deviations that
//! break no promise.

use lockhouse_core::{Command, Loaded, SemaphoreRow, Template, decide};

use super::assert_caught;

/// The semaphores that `commands` make follow their templates.
fn followed<'a>(
    loaded: &'a mut Loaded,
    commands: &'a [Command],
) -> impl Iterator<Item = &'a mut SemaphoreRow> {
    loaded.semaphores.values_mut().filter(|semaphore| {
        let follows =
            |c: &Command| matches!(c, Command::Follow { name } if *name == semaphore.name);
        commands.iter().any(follows)
    })
}

#[test]
fn overriding_a_resize_by_hand_is_caught() {
    assert_caught("changes", |mut loaded, commands| {
        let origins = followed(&mut loaded, commands).filter_map(|s| s.origin.as_mut());
        origins.for_each(|origin| origin.is_resized = false);
        decide(loaded, commands)
    });
}

/// P2.
#[test]
fn deleting_what_is_held_as_unused_is_caught() {
    assert_caught("P2", |mut loaded, commands| {
        followed(&mut loaded, commands).for_each(|semaphore| semaphore.in_use = 0);
        decide(loaded, commands)
    });
}

/// P7.
#[test]
fn restarting_fences_for_a_grant_is_caught() {
    assert_caught("P7", |mut loaded, commands| {
        if commands.iter().all(|command| command.ask().is_some()) {
            let gone = loaded.semaphores.values_mut().filter(|s| !s.exists());
            gone.for_each(|semaphore| semaphore.fence = 0);
        }
        decide(loaded, commands)
    });
}

/// P5: the model saves no row.
#[test]
fn creating_a_semaphore_for_an_ask_that_is_refused_is_caught() {
    assert_caught("changes", |loaded, commands| {
        let mut decision = decide(loaded.clone(), commands);
        let answers = commands.iter().zip(&decision.outcomes);
        let refused = answers.filter(|(_, outcome)| outcome.is_err());
        let asks = refused.filter_map(|(command, _)| command.ask());
        for (name, _) in asks.flat_map(|ask| ask.permits()) {
            let is_there = loaded.semaphores.contains_key(name);
            if let Some(template) = Template::of(name, &loaded.templates).filter(|_| !is_there) {
                decision.changes.semaphores.push(SemaphoreRow {
                    capacity: template.capacity,
                    deleted_at: None,
                    ..SemaphoreRow::undefined(name.clone(), loaded.now)
                });
            }
        }
        decision
    });
}

#[test]
fn the_template_with_the_shorter_prefix_is_caught() {
    assert_caught("answers", |mut loaded, commands| {
        let shortest = loaded
            .templates
            .iter()
            .min_by_key(|t| t.pattern.prefix().len());
        loaded.templates = shortest.cloned().into_iter().collect();
        decide(loaded, commands)
    });
}
