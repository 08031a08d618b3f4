//! Defects in the line of all processes: in the entries that a process writes, and in the line that
//! it reads.

use std::time::Duration;

use lockhouse::store::{Command, Outcome, Reply};
use lockhouse_core::{Line, ProcessId, SemaphoreRow};

use super::breaks::Break;
use crate::broken::order::level;
use crate::simulation::keys;

/// Longer than any run: a waiter that has waited so long comes before all waiters that have not.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Changes `command` before it goes to the rows.
pub(super) fn distort(breaks: Break, command: &mut Command) {
    match (breaks, command) {
        (Break::NeverRegisters, Command::Stand { stand, .. }) => stand.standing = None,
        (Break::LosesPlaceAtKey, Command::Stand { name, stand }) if keys::is_one(name) => {
            stand.standing = None;
        }
        (Break::WindowWithoutBound, Command::Acquire { turn, .. }) if turn.waits => {
            turn.waited += FOR_EVER;
        }
        (Break::IgnoresPriority, command) => level(command),
        _ => {}
    }
}

/// Changes a semaphore's line in the answer to the process that sent `command`.
pub(super) fn hide_line(breaks: Break, command: &Command, outcome: &mut Outcome) {
    let (Command::Stand { stand, .. }, Ok(Reply::Seen { semaphore, .. })) = (command, outcome)
    else {
        return;
    };
    if breaks == Break::WindowWithoutBound {
        semaphore.line = only_of(stand.process, &semaphore.line);
    }
}

/// The line as it would be without waiters at other processes.
fn only_of(process: ProcessId, line: &Line) -> Line {
    let text = line.to_string();
    let mut parts = text.split(';');
    let head = parts.next().unwrap_or_default();
    let its = process.to_string();
    let own = parts.find(|entry| entry.split(' ').nth(1) == Some(its.as_str()));
    own.map_or_else(Line::default, |own| Line::stored(&format!("{head};{own}")))
}

/// The semaphore that a poll finds.
pub(super) fn seen(breaks: Break, mut semaphore: SemaphoreRow) -> SemaphoreRow {
    match breaks {
        Break::WindowWithoutBound => semaphore.line = Line::default(),
        Break::LosesWake => fill(&mut semaphore),
        Break::ReservesWithoutKey => semaphore.origin = None,
        _ => {}
    }
    semaphore
}

/// No process hears of permits that other processes release. Only a process that releases permits itself sees that some are
/// free.
pub(in crate::simulation) fn lose_wake(commands: &[Command], outcomes: &mut [Outcome]) {
    if commands
        .iter()
        .any(|command| matches!(command, Command::End { .. }))
    {
        return;
    }
    for outcome in outcomes {
        if let Ok(Reply::Seen { semaphore, .. }) = outcome {
            fill(semaphore);
        }
    }
}

/// No answer says that a template created a semaphore.
pub(in crate::simulation) fn hide_origins(outcomes: &mut [Outcome]) {
    for outcome in outcomes {
        if let Ok(Reply::Seen { semaphore, .. }) = outcome {
            semaphore.origin = None;
        }
    }
}

fn fill(semaphore: &mut SemaphoreRow) {
    semaphore.in_use = semaphore.in_use.max(semaphore.capacity.value());
    semaphore.line = Line::default();
}
