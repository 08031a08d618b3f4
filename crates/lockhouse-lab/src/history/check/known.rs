//! P9: no call finds an existing semaphore unknown, or an ask too large that fits into its capacity.
//!
//! A change without an answer may take effect at any time after its beginning.

use std::collections::BTreeMap;

use super::facts::may_be_done;
use super::scene::Scene;
use super::templates::Templates;
use crate::history::{Answer, Call, NEVER, Operation, Promise, Refused, Violation};

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let mut semaphores = semaphores(scene);
    let templates = Templates::of(scene);
    semaphores.retain(|name, _| !templates.match_name(name));
    let denied = scene.operations.iter().filter_map(|operation| {
        let surely: fn(&Semaphore<'_>, i64, &Operation) -> bool = match &operation.answer {
            Answer::Refused(Refused::UnknownSemaphore) => |semaphore, _, o| semaphore.is_there(o),
            Answer::Refused(Refused::TooMuch) => |semaphore, count, o| semaphore.fits(count, o),
            _ => return None,
        };
        let named = named(&operation.call);
        let is_denied = |(name, count): &(&str, i64)| {
            let semaphore = semaphores.get(name);
            semaphore.is_some_and(|semaphore| surely(semaphore, *count, operation))
        };
        if named.is_empty() || !named.iter().all(is_denied) {
            return None;
        }
        let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
        let what = format!(
            "{} is denied, and was there all the while",
            names.join(" and ")
        );
        Some(Violation::new(Promise::P9, what).by([*operation]))
    });
    denied.collect()
}

/// Whether the operation is a delete that found nothing. A delete that is repeated after a lost answer finds the work
/// of its first try.
pub(super) fn was_gone(operation: &Operation) -> bool {
    let is_delete = matches!(operation.call, Call::Delete { .. });
    is_delete && operation.answer == Answer::Refused(Refused::UnknownSemaphore)
}

/// The semaphores that a call may find missing, and how many it wants of each.
fn named(call: &Call) -> Vec<(&str, i64)> {
    match call {
        Call::Acquire(asked) => {
            let permits = asked.permits.iter();
            permits
                .map(|(name, count)| (name.as_str(), *count))
                .collect()
        }
        Call::Delete { semaphore } => vec![(semaphore, 0)],
        _ => Vec::new(),
    }
}

/// The changes of a semaphore, in the order in which they were begun.
#[derive(Default)]
struct Semaphore<'a> {
    defines: Vec<(&'a Operation, i64)>,
    /// Each deletion, with the latest time at which it or an earlier one may have been done.
    deletes: Vec<(&'a Operation, u64)>,
    /// For each answered define: when it was answered, and the latest beginning among it and those answered before.
    answered: Vec<(u64, u64)>,
}

fn semaphores<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, Semaphore<'a>> {
    let mut semaphores: BTreeMap<&str, Semaphore<'_>> = BTreeMap::new();
    let may_change = |o: &&&'a Operation| may_be_done(o) || was_gone(o);
    for operation in scene.operations.iter().copied().filter(|o| may_change(&o)) {
        match &operation.call {
            Call::Define {
                semaphore,
                capacity,
            } => {
                let semaphore = semaphores.entry(semaphore).or_default();
                semaphore.defines.push((operation, *capacity));
                if operation.answer == Answer::Done {
                    semaphore.answered.push((operation.ended, operation.begun));
                }
            }
            Call::Delete { semaphore } => {
                let semaphore = semaphores.entry(semaphore).or_default();
                let before = semaphore.deletes.last().map_or(0, |(_, last)| *last);
                let last = before.max(done_by(operation));
                semaphore.deletes.push((operation, last));
            }
            _ => {}
        }
    }
    for semaphore in semaphores.values_mut() {
        semaphore.answered.sort_unstable();
        let mut latest = 0;
        for (_, begun) in &mut semaphore.answered {
            latest = latest.max(*begun);
            *begun = latest;
        }
    }
    semaphores
}

/// When the change has been done at the latest.
pub(super) fn done_by(change: &Operation) -> u64 {
    match change.answer == Answer::Done || was_gone(change) {
        true => change.ended,
        false => NEVER,
    }
}

impl Semaphore<'_> {
    /// The latest beginning among the defines that were surely done before `at`.
    fn defined_since(&self, at: u64) -> Option<u64> {
        let before = self.answered.partition_point(|(ended, _)| *ended < at);
        Some(self.answered[before.checked_sub(1)?].1)
    }

    /// Whether the semaphore surely existed all through the call: no delete may have come after its definition.
    fn is_there(&self, during: &Operation) -> bool {
        let Some(defined) = self.defined_since(during.begun) else {
            return false;
        };
        let deletes = &self.deletes;
        let before = deletes.partition_point(|(delete, _)| delete.begun < during.ended);
        // A delete does not compete with itself.
        let is_other = |(delete, _): &&(&Operation, u64)| !std::ptr::eq(*delete, during);
        let last = deletes[..before].iter().rev().find(is_other);
        last.is_none_or(|(_, done)| *done < defined)
    }

    /// Whether `count` surely fitted all through the call. A closed semaphore is full, not too small.
    fn fits(&self, count: i64, during: &Operation) -> bool {
        let Some(defined) = self.defined_since(during.begun) else {
            return false;
        };
        let in_force = self
            .defines
            .iter()
            .filter(|(define, _)| define.begun < during.ended && done_by(define) >= defined);
        in_force
            .map(|(_, capacity)| *capacity)
            .all(|capacity| capacity >= count || capacity == 0)
    }
}
