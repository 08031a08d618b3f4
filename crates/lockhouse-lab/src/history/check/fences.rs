//! P7: fences rise in the order of time, and callers got the fences that the rows have.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::scene::Scene;
use crate::history::{Operation, Promise, Violation};

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let mut grants: BTreeMap<&str, Vec<(&Operation, i64)>> = BTreeMap::new();
    let mut found = Vec::new();
    for facts in scene.requests.values() {
        found.extend(told_otherwise(facts));
        for (grant, held, now) in facts.grants() {
            for permit in held.iter().filter(|_| now) {
                if let Some(fence) = permit.fence {
                    let known = grants.entry(&permit.semaphore).or_default();
                    known.push((grant, fence));
                }
            }
        }
    }
    found.extend(
        grants
            .iter()
            .filter_map(|(name, grants)| falls(name, grants)),
    );
    found
}

/// A grant that is surely later than another, and whose fence is not greater.
fn falls(semaphore: &str, grants: &[(&Operation, i64)]) -> Option<Violation> {
    let mut by_begin = grants.to_vec();
    by_begin.sort_by_key(|(grant, _)| grant.begun);
    let mut by_end = grants.to_vec();
    by_end.sort_by_key(|(grant, _)| grant.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut greatest: Option<(&Operation, i64)> = None;
    for (grant, fence) in by_begin {
        while let Some(before) = ended.next_if(|(before, _)| before.ended < grant.begun) {
            if greatest.is_none_or(|(_, most)| before.1 > most) {
                greatest = Some(before);
            }
        }
        if let Some((before, most)) = greatest.filter(|(_, most)| *most >= fence) {
            let what = format!("{semaphore}: fence {fence} after {most}");
            return Some(Violation::new(Promise::P7, what).by([before, grant]));
        }
    }
    None
}

/// An answer with a fence, or with slots (P1), that the row does not have.
fn told_otherwise(facts: &Facts<'_>) -> Option<Violation> {
    for (grant, held, _) in facts.grants() {
        for permit in held {
            let row = facts
                .rows
                .iter()
                .find(|row| row.semaphore == permit.semaphore);
            let other = row.filter(|row| permit.fence.is_some_and(|fence| fence != row.fence));
            if let Some(row) = other {
                let what = format!("{}: another fence was told", facts.id);
                return Some(Violation::new(Promise::P7, what).by([grant]).at([*row]));
            }
            if let Some(row) = row.filter(|row| permit.slots != row.slots) {
                let what = format!("{}: other slots were told", facts.id);
                return Some(Violation::new(Promise::P1, what).by([grant]).at([*row]));
            }
        }
    }
    None
}
