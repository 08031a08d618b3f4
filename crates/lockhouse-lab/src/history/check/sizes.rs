//! P9: a semaphore has the capacity that it was last given.

use std::collections::BTreeMap;

use super::Scene;
use super::facts::may_be_done;
use crate::history::{Answer, Call, Operation, Promise, Violation};

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let Some(rows) = scene.rows else {
        return Vec::new();
    };
    let mut changes: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in scene.operations.iter().filter(|o| may_be_done(o)) {
        if let Call::Define { semaphore, .. } | Call::Delete { semaphore } = &operation.call {
            changes.entry(semaphore).or_default().push(operation);
        }
    }
    let mut found = Vec::new();
    for row in &rows.semaphores {
        let of_it = changes.get(row.name.as_str());
        let Some((last, capacity)) = of_it.and_then(|of_it| last(of_it)) else {
            continue;
        };
        if row.capacity != capacity {
            let (name, is) = (&row.name, row.capacity);
            let what = format!("{name} was given a capacity of {capacity}, and has {is}");
            found.push(Violation::new(Promise::P9, what).by([last]));
        }
    }
    found
}

/// The change that surely came last, in the order of their beginnings: all others that would have
/// made it something else were answered before it was begun.
fn last<'a>(changes: &[&'a Operation]) -> Option<(&'a Operation, i64)> {
    let (last, others) = changes.split_last()?;
    let Call::Define { capacity, .. } = last.call else {
        return None;
    };
    let settled = |other: &&Operation| {
        let alike = matches!(other.call, Call::Define { capacity: its, .. } if its == capacity);
        alike || (other.answer == Answer::Done && other.ended < last.begun)
    };
    let is_last = last.answer == Answer::Done && others.iter().all(settled);
    is_last.then_some((*last, capacity))
}
