//! P9: a semaphore has the capacity of its last definition.

use std::collections::BTreeMap;

use super::facts::may_be_done;
use super::known;
use super::scene::Scene;
use super::templates::Templates;
use crate::history::{Answer, Call, Operation, Promise, Violation};

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let Some(rows) = scene.rows else {
        return Vec::new();
    };
    let mut changes: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    let may_change = |o: &&&Operation| may_be_done(o) || known::was_gone(o);
    for operation in scene.operations.iter().filter(may_change) {
        if let Call::Define { semaphore, .. } | Call::Delete { semaphore } = &operation.call {
            changes.entry(semaphore).or_default().push(operation);
        }
    }
    let templates = Templates::of(scene);
    let mut found = Vec::new();
    for row in &rows.semaphores {
        let of_it = changes.get(row.name.as_str());
        let Some(last) = of_it.and_then(|of_it| last(of_it)) else {
            continue;
        };
        if templates.match_name(&row.name) && !is_held_since(scene, &row.name, last.begun) {
            continue;
        }
        let (capacity, name) = (capacity(last), &row.name);
        let what = match capacity {
            None if !row.is_deleted => format!("{name} was deleted, and is there"),
            Some(_) if row.is_deleted => format!("{name} was defined, and is deleted"),
            Some(capacity) if row.capacity != capacity => {
                let is = row.capacity;
                format!("{name} was given a capacity of {capacity}, and has {is}")
            }
            _ => continue,
        };
        found.push(Violation::new(Promise::P9, what).by([last]));
    }
    found
}

/// Whether a holder was granted a permit of the semaphore before `at` and still has it, so that the semaphore was not
/// deleted meanwhile.
fn is_held_since(scene: &Scene<'_>, name: &str, at: u64) -> bool {
    let mut requests = scene.requests.values();
    requests.any(|facts| {
        let mut rows = facts.rows.iter();
        rows.any(|row| row.semaphore == name && row.released_at.is_none())
            && facts.first_grant().is_some_and(|grant| grant.ended < at)
    })
}

/// The capacity after a change. `None` if the change is a deletion.
fn capacity(change: &Operation) -> Option<i64> {
    match change.call {
        Call::Define { capacity, .. } => Some(capacity),
        _ => None,
    }
}

/// The change that surely came last: all changes to another capacity were answered before it was begun. `changes` are in
/// the order of their beginnings.
fn last<'a>(changes: &[&'a Operation]) -> Option<&'a Operation> {
    let (last, others) = changes.split_last()?;
    let settled = |other: &&Operation| {
        known::done_by(other) < last.begun || capacity(other) == capacity(last)
    };
    let is_last = last.answer == Answer::Done && others.iter().all(settled);
    is_last.then_some(*last)
}
