//! Invariants of slots after each commit, checked on the rows.

use lockhouse_core::{Capacity, Request, SemaphoreName, Slots};

use crate::broken::{Check, ensure};
use crate::commit::{Commit, is_live};
use crate::rows::Rows;

/// P1: each slot belongs to one live permit, and a permit has as many slots as its count. A permit of a semaphore without
/// slots has none.
pub(crate) fn held_by_one(commit: &Commit<'_>) -> Check {
    for (name, row) in &commit.after.semaphores {
        let mut held = Slots::default();
        for (request, slots, count) in live(commit.after, name) {
            let many = slots.map_or(0, Slots::len);
            let expected = if row.slots.is_some() { count } else { 0 };
            ensure(many == expected, "P1", || {
                format!(
                    "{} holds {count} of {name}, slots {slots:?}",
                    request.external_id
                )
            })?;
            let Some(slots) = slots else { continue };
            let shared = held.shared_with(slots);
            ensure(shared.is_empty(), "P1", || {
                format!("slots {shared:?} of {name} are held twice")
            })?;
            held.extend(slots);
        }
    }
    Ok(())
}

/// Granted slots are below a capacity that was in force during the commit, and no lower slot was
/// free throughout.
pub(crate) fn lowest_first(commit: &Commit<'_>) -> Check {
    for (name, row) in &commit.after.semaphores {
        if row.slots.is_none() {
            continue;
        }
        let mut busy = Slots::default();
        let mut granted = Slots::default();
        for (_, slots, _) in live(commit.before, name) {
            slots.into_iter().for_each(|slots| busy.extend(slots));
        }
        for (_, request) in commit.grants() {
            let permits = request.permits.iter().filter(|p| p.semaphore == *name);
            for slots in permits.filter_map(|permit| permit.slots.as_ref()) {
                busy.extend(slots);
                granted.extend(slots);
            }
        }
        let Some(highest) = granted.iter().last() else {
            continue;
        };
        let most = commit.largest_capacity(name).map_or(0, Capacity::value);
        ensure(highest < most, "slots", || {
            format!("slot {highest} of {name} was granted, its capacity is {most}")
        })?;
        let lower = (0..highest).find(|slot| !busy.contains(*slot));
        ensure(lower.is_none(), "slots", || {
            format!("slot {highest} of {name} was granted, and {lower:?} was free")
        })?;
    }
    Ok(())
}

/// P2: a semaphore's slots are those that its live permits hold.
pub(crate) fn taken_while_held(commit: &Commit<'_>) -> Check {
    for (name, row) in &commit.after.semaphores {
        let Some(taken) = &row.slots else { continue };
        let mut held = Slots::default();
        for (_, slots, _) in live(commit.after, name) {
            slots.into_iter().for_each(|slots| held.extend(slots));
        }
        ensure(*taken == held, "P2", || {
            format!("slots {taken:?} of {name} are taken, {held:?} are held")
        })?;
    }
    Ok(())
}

/// The holders of `name`, with their slots and counts.
fn live<'a>(
    rows: &'a Rows,
    name: &SemaphoreName,
) -> impl Iterator<Item = (&'a Request, Option<&'a Slots>, u32)> {
    let live = rows.requests.values().filter(|row| is_live(row));
    live.flat_map(move |request| {
        let permits = request.permits.iter().filter(|p| p.semaphore == *name);
        permits.map(move |p| (request, p.slots.as_ref(), p.count.value()))
    })
}
