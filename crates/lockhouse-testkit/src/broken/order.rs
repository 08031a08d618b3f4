//! P11: stores that serve the line of all processes out of order.

use std::time::Duration;

use lockhouse_core::{Command, Decision, Line, Loaded, Priority, Seniority, decide};

use super::sabotage::Sabotage;
use super::variant::{Variant, before};
use crate::history::Promise;

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "no process is entered in the line",
        breaks: Promise::P11,
        sabotage: || Sabotage::new(true, |loaded, commands| changed(loaded, commands, forget)),
    },
    Variant {
        name: "a grant passes over all processes",
        breaks: Promise::P11,
        sabotage: || {
            before(|loaded, commands| {
                let asks = commands.iter().any(|command| command.ask().is_some());
                let rows = loaded.semaphores.values_mut().filter(|_| asks);
                rows.for_each(|row| row.line = Line::default());
            })
        },
    },
    Variant {
        name: "a waiter reserves without its key",
        breaks: Promise::P11,
        sabotage: Sabotage::hiding_origins,
    },
    Variant {
        name: "priority counts at one process only",
        breaks: Promise::P11,
        sabotage: || Sabotage::new(true, |loaded, commands| changed(loaded, commands, level)),
    },
];

/// Longer than any wait.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Decides the commands after `change`.
fn changed(loaded: Loaded, commands: &[Command], change: fn(&mut Command)) -> Decision {
    let mut commands = commands.to_vec();
    commands.iter_mut().for_each(change);
    decide(loaded, &commands)
}

/// Hides the waiters of the process.
pub(super) fn forget(command: &mut Command) {
    if let Command::Stand { stand, .. } = command {
        stand.standing = None;
    }
}

/// Removes the priority.
pub(crate) fn level(command: &mut Command) {
    match command {
        Command::Acquire { ask, .. } => ask.priority = Priority::default(),
        Command::Stand { stand, .. } => {
            if let Some(standing) = &mut stand.standing {
                standing.seniority = without_priority(standing.seniority);
            }
        }
        _ => {}
    }
}

/// The seniority without its priority, which is from −1 to 1. It must be less than a step of priority is worth.
fn without_priority(seniority: Seniority) -> Seniority {
    let step = |step: i32| Priority::new(step).expect("it is in bounds");
    let of = |waited_us: u64, priority| Seniority::new(Duration::from_micros(waited_us), priority);
    let priorities = [1, 0, -1].map(step);
    let its = priorities.into_iter().find(|its| seniority >= of(0, *its));
    let Some(priority) = its else {
        return seniority;
    };
    let (mut least, mut more) = (0, FOR_EVER.as_micros() as u64);
    while more - least > 1 {
        let middle = least.midpoint(more);
        match of(middle, priority) <= seniority {
            true => least = middle,
            false => more = middle,
        }
    }
    of(least, Priority::default())
}
