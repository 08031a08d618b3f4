//! P1, P2, P5, P7 and P9: stores that break the rules of templates and slots.

use lockhouse_core::{
    Command, Decision, Grant, Loaded, Origin, Reply, SemaphoreRow, Slots, Template, decide,
};

use super::sabotage::Sabotage;
use super::variant::{Variant, after, before};
use crate::history::Promise;

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "slots that are held are handed out",
        breaks: Promise::P1,
        sabotage: || Sabotage::new(true, hand_out_again),
    },
    Variant {
        name: "slots begin at the capacity",
        breaks: Promise::P1,
        sabotage: || after(|_, decision| move_up(decision)),
    },
    Variant {
        name: "other slots on retry",
        breaks: Promise::P5,
        sabotage: || after(|_, decision| answer_other_slots(decision)),
    },
    Variant {
        name: "a refused ask creates its semaphore",
        breaks: Promise::P5,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let mut decision = decide(loaded.clone(), commands);
                leave_rows(&loaded, commands, &mut decision);
                decision
            })
        },
    },
    Variant {
        name: "fences restart when a template creates a name again",
        breaks: Promise::P7,
        sabotage: || {
            before(|loaded, commands| {
                let asks = commands.iter().all(|command| command.ask().is_some());
                let gone = loaded.semaphores.values_mut().filter(|s| !s.exists());
                gone.filter(|_| asks)
                    .for_each(|semaphore| semaphore.fence = 0);
            })
        },
    },
    Variant {
        name: "a template overrides a resize by hand",
        breaks: Promise::P9,
        sabotage: || {
            before(|loaded, commands| {
                for origin in followed(loaded, commands).filter_map(|s| s.origin.as_mut()) {
                    origin.is_resized = false;
                }
            })
        },
    },
    Variant {
        name: "a semaphore is deleted as unused while it is held",
        breaks: Promise::P2,
        sabotage: || {
            before(|loaded, commands| {
                for semaphore in followed(loaded, commands) {
                    semaphore.in_use = 0;
                }
            })
        },
    },
];

/// The semaphores that are to follow their templates.
fn followed<'a>(
    loaded: &'a mut Loaded,
    commands: &'a [Command],
) -> impl Iterator<Item = &'a mut SemaphoreRow> {
    loaded.semaphores.values_mut().filter(|semaphore| {
        let follows = |command: &Command| matches!(command, Command::Follow { name } if *name == semaphore.name);
        commands.iter().any(follows)
    })
}

/// Grants slots as if none were taken.
fn hand_out_again(loaded: Loaded, commands: &[Command]) -> Decision {
    let asks = |c: &Command| matches!(c, Command::Acquire { .. } | Command::Stand { .. });
    if !commands.iter().all(asks) {
        return decide(loaded, commands);
    }
    let mut free = loaded.clone();
    let slots = free.semaphores.values_mut();
    for slots in slots.filter_map(|semaphore| semaphore.slots.as_mut()) {
        *slots = Slots::default();
    }
    let mut decision = decide(free, commands);
    let seen = decision
        .outcomes
        .iter_mut()
        .filter_map(|outcome| match outcome {
            Ok(Reply::Seen { semaphore, .. }) => Some(semaphore),
            _ => None,
        });
    for row in seen.chain(&mut decision.changes.semaphores) {
        let taken = loaded
            .semaphores
            .get(&row.name)
            .and_then(|row| row.slots.as_ref());
        if let (Some(slots), Some(taken)) = (&mut row.slots, taken) {
            slots.extend(taken);
        }
    }
    decision
}

/// Hands out slots from the capacity on.
fn move_up(decision: &mut Decision) {
    let Decision { outcomes, changes } = decision;
    let told = outcomes.iter_mut().filter_map(|outcome| match outcome {
        Ok(Reply::Granted {
            request, now: true, ..
        }) => Some(request),
        _ => None,
    });
    for request in told {
        for permit in &mut request.permits {
            let mut rows = changes.semaphores.iter_mut();
            let row = rows.find(|row| row.name == permit.semaphore);
            if let Some(row) = row {
                let by = row.capacity.value();
                let was = shift(permit, by);
                if let (Some(taken), Some(was), Some(slots)) = (&mut row.slots, was, &permit.slots)
                {
                    taken.remove(&was);
                    taken.extend(slots);
                }
            }
        }
        let mut saved = changes.granted.iter_mut();
        if let Some(saved) = saved.find(|saved| saved.external_id == request.external_id) {
            saved.permits.clone_from(&request.permits);
        }
    }
}

/// A repeated ask shows other slots than the grant.
fn answer_other_slots(decision: &mut Decision) {
    for outcome in &mut decision.outcomes {
        if let Ok(Reply::Granted {
            request,
            now: false,
            ..
        }) = outcome
        {
            for permit in &mut request.permits {
                shift(permit, 1);
            }
        }
    }
}

/// Moves the slots of a permit up. Returns the slots before.
fn shift(permit: &mut Grant, by: u32) -> Option<Slots> {
    let slots = permit.slots.as_mut()?;
    let shifted = Slots::of(slots.iter().map(|slot| slot + by)).expect("they are few");
    Some(std::mem::replace(slots, shifted))
}

/// Saves what a template would create for asks that were refused.
fn leave_rows(loaded: &Loaded, commands: &[Command], decision: &mut Decision) {
    let answers = commands.iter().zip(&decision.outcomes);
    let refused = answers.filter(|(_, outcome)| outcome.is_err());
    let refused = refused.filter_map(|(command, _)| command.ask());
    for (name, _) in refused.flat_map(|ask| ask.permits()) {
        let row = loaded.semaphores.get(name);
        let is_saved = decision.changes.semaphores.iter().any(|s| s.name == *name);
        if row.is_some_and(SemaphoreRow::exists) || is_saved {
            continue;
        }
        let Some(template) = Template::of(name, &loaded.templates) else {
            continue;
        };
        decision.changes.semaphores.push(SemaphoreRow {
            capacity: template.capacity,
            fence: row.map_or(0, |row| row.fence),
            deleted_at: None,
            origin: Some(Origin {
                template: template.pattern.clone(),
                is_resized: false,
                used_at: loaded.now,
            }),
            ..SemaphoreRow::undefined(name.clone(), loaded.now)
        });
    }
}
