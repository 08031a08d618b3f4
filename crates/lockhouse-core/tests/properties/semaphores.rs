//! The row of a semaphore, read from the log.

use lockhouse_core::{Line, SemaphoreName, SemaphoreRow};

use crate::log::{self, Entry, Event};
use crate::origins;

/// The semaphore, existing or deleted. `None` if it was never defined.
pub(crate) fn row(log: &[Entry], semaphore: &SemaphoreName) -> Option<SemaphoreRow> {
    let mut defined = None;
    let mut created_at = None;
    let mut deleted_at = None;
    for (i, entry) in log.iter().enumerate() {
        match &entry.event {
            Event::Defined { name, capacity, .. }
            | Event::Made { name, capacity, .. }
            | Event::Followed { name, capacity, .. }
                if name == semaphore =>
            {
                defined = Some((*capacity, entry.at));
                if log::capacity(&log[..i], semaphore).is_none() {
                    created_at = Some(entry.at);
                }
                deleted_at = None;
            }
            Event::Deleted(name) if name == semaphore => deleted_at = Some(entry.at),
            _ => {}
        }
    }
    let (capacity, updated_at) = defined?;
    // A deleted row stays unchanged.
    let until = log.iter().rposition(|entry| {
        matches!(&entry.event, Event::Defined { name, .. } | Event::Made { name, .. } if name == semaphore)
    })?;
    let had_slots = log::is_slotted(&log[..=until], semaphore);
    let granted = log::slots_granted(log, semaphore);
    let live = granted.iter().filter(|(id, _)| log::end(log, id).is_none());
    let held = live.flat_map(|(_, slots)| slots.iter().copied());
    Some(SemaphoreRow {
        name: semaphore.clone(),
        capacity,
        in_use: log::live_permits(log, semaphore),
        fence: log::fence(log, semaphore),
        created_at: created_at?,
        updated_at,
        deleted_at,
        line: Line::default(),
        origin: origins::of(log, semaphore),
        slots: had_slots.then(|| log::slots(held)),
    })
}
