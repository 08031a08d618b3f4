//! Checks whether a database's rows keep P1, P2, P3, P7 and P8.
//!
//! The times of a grant and of an end are by the store's clock, read under the semaphore's lock. Fences are handed out under
//! the same lock. So the permits of a semaphore in the order of their fences are its history, and P1 can be checked at every
//! past grant.

mod slots;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::rows::{CapacityChangeRow, PermitRow, Rows, SemaphoreRow};
use super::{Moved, Promise, Violation};

/// How many live permits are shown if their sum is wrong.
const SHOWN: usize = 20;

/// The inconsistencies of the rows, in words. Empty if there are none.
pub fn violations(rows: &Rows) -> Vec<String> {
    let found = broken(rows, &Moved::default(), |_| false);
    found.iter().map(ToString::to_string).collect()
}

/// The inconsistencies of the rows of a store whose clock was `moved`. A semaphore that a template
/// `may_make` may have been created with one capacity, deleted as idle, and created with another.
/// So it is judged only since its last creation.
pub fn broken(rows: &Rows, moved: &Moved, may_make: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut found = out_of_order(&moved.set_right(rows), may_make);
    found.extend(rows.permits.iter().filter_map(ends_by_its_time));
    found
}

/// The inconsistencies in which no TTL counts. All times must be by one clock that was never set.
fn out_of_order(rows: &Rows, may_make: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut by_semaphore: HashMap<&str, Vec<&PermitRow>> = HashMap::new();
    for permit in &rows.permits {
        by_semaphore
            .entry(&permit.semaphore)
            .or_default()
            .push(permit);
    }
    let mut changes: HashMap<&str, Vec<&CapacityChangeRow>> = HashMap::new();
    for change in &rows.capacity_changes {
        changes.entry(&change.semaphore).or_default().push(change);
    }
    let mut found: Vec<Violation> = rows.permits.iter().filter_map(ends_once).collect();
    for semaphore in &rows.semaphores {
        let mut permits = by_semaphore
            .remove(semaphore.name.as_str())
            .unwrap_or_default();
        permits.sort_by_key(|permit| permit.fence);
        found.extend(conservation(semaphore, &permits));
        found.extend(fences(semaphore, &permits));
        let mut changes = changes.remove(semaphore.name.as_str());
        if may_make(&semaphore.name) {
            let since = semaphore.created_at;
            permits.retain(|permit| permit.granted_at >= since);
            changes = changes.map(|mut changes| {
                changes.retain(|change| change.changed_at >= since);
                changes
            });
        }
        let capacities = Capacities::of(semaphore, changes);
        found.extend(capacity(semaphore, &capacities, &permits));
        found.extend(slots::broken(|time| capacities.at(time), &permits));
    }
    found.extend(
        by_semaphore
            .into_values()
            .filter_map(|permits| held_of_nothing(&permits)),
    );
    found
}

/// P2: every held permit belongs to an existing semaphore.
fn held_of_nothing(permits: &[&PermitRow]) -> Option<Violation> {
    let held = permits.iter().find(|permit| permit.released_at.is_none())?;
    let what = format!("{} is held, and is not there", held.semaphore);
    Some(Violation::new(Promise::P2, what).at([*held]))
}

/// P3: an ended request has a reason and a time, and a live one has neither.
fn ends_once(permit: &PermitRow) -> Option<Violation> {
    let ended = permit.released_at.is_some();
    let whole = permit.end_reason.is_some() == ended
        && permit.state == if ended { "RELEASED" } else { "ACQUIRED" };
    let what = format!("{} has an end by halves", permit.external_id);
    (!whole).then(|| Violation::new(Promise::P3, what).at([permit]))
}

/// P8: a request expires when its TTL has passed, and no sooner. After that it ends in no other way.
fn ends_by_its_time(permit: &PermitRow) -> Option<Violation> {
    let (expires_at, ended_at) = (permit.expires_at?, permit.released_at?);
    let expired = permit.end_reason.as_deref() == Some("expired");
    let what = format!("{} did not end by its time", permit.external_id);
    (expired != (expires_at <= ended_at)).then(|| Violation::new(Promise::P8, what).at([permit]))
}

/// P2: the counter is the sum of the live permits.
fn conservation(semaphore: &SemaphoreRow, permits: &[&PermitRow]) -> Option<Violation> {
    let held = permits.iter().filter(|p| p.released_at.is_none());
    let live: i64 = held.clone().map(|p| p.count).sum();
    let (name, in_use) = (&semaphore.name, semaphore.in_use);
    let what = format!("{name}: in_use {in_use}, but {live} are live");
    // Without a live permit, the permit that was released last is shown.
    let last = permits.iter().max_by_key(|p| p.released_at);
    let last = last.filter(|_| live == 0);
    let shown = held.chain(last).take(SHOWN).copied();
    (live != in_use).then(|| Violation::new(Promise::P2, what).at(shown))
}

/// P7: no two grants have one fence, no fence is beyond the semaphore's, and later grants have greater fences.
fn fences(semaphore: &SemaphoreRow, permits: &[&PermitRow]) -> Vec<Violation> {
    let name = &semaphore.name;
    let mut found = Vec::new();
    for pair in permits.windows(2) {
        let [a, b] = *pair else { continue };
        if a.fence == b.fence {
            let what = format!("{name}: fence {} twice", a.fence);
            found.push(Violation::new(Promise::P7, what).at([a, b]));
        }
        if a.granted_at > b.granted_at {
            let what = format!("{name}: fence {} was granted after {}", a.fence, b.fence);
            found.push(Violation::new(Promise::P7, what).at([a, b]));
        }
    }
    if let Some(last) = permits.last().filter(|last| last.fence > semaphore.fence) {
        let what = format!("{name}: fence {} is beyond {}", last.fence, semaphore.fence);
        found.push(Violation::new(Promise::P7, what).at([*last]));
    }
    found
}

/// The capacity of one semaphore, over time.
struct Capacities<'a> {
    first: i64,
    changes: Vec<&'a CapacityChangeRow>,
}

impl<'a> Capacities<'a> {
    fn of(semaphore: &SemaphoreRow, changes: Option<Vec<&'a CapacityChangeRow>>) -> Self {
        let changes = changes.unwrap_or_default();
        let first = changes
            .first()
            .map_or(semaphore.capacity, |c| c.old_capacity);
        Self { first, changes }
    }

    /// The greatest capacity in force at `time`: a grant in the microsecond of a change may have come before or after it.
    fn at(&self, time: i64) -> i64 {
        let before = self.changes.partition_point(|c| c.changed_at < time);
        let (earlier, others) = self.changes.split_at(before);
        let in_force = earlier.last().map_or(self.first, |c| c.new_capacity);
        let just_then = others.iter().take_while(|c| c.changed_at == time);
        just_then.map(|c| c.new_capacity).fold(in_force, i64::max)
    }
}

/// P1: at every grant, the live permits fit the capacity then in force.
fn capacity(
    semaphore: &SemaphoreRow,
    capacities: &Capacities<'_>,
    permits: &[&PermitRow],
) -> Option<Violation> {
    let mut live = 0;
    let mut endings = BinaryHeap::new();
    for permit in permits {
        // A request that ended in the same microsecond may have ended in the same commit, before
        // the grant.
        while let Some(Reverse((at, count))) = endings.peek() {
            if *at > permit.granted_at {
                break;
            }
            live -= count;
            endings.pop();
        }
        live += permit.count;
        let of = capacities.at(permit.granted_at);
        if live > of {
            let what = format!(
                "{}: {live} of {of} at fence {}",
                semaphore.name, permit.fence
            );
            return Some(Violation::new(Promise::P1, what).at([*permit]));
        }
        // A permit that one commit granted and ended takes no room from the next grant.
        if let Some(at) = permit.released_at {
            endings.push(Reverse((at, permit.count)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(in_use: i64, permits: &[(i64, i64, i64, Option<i64>)]) -> Rows {
        let permit = |&(fence, count, granted_at, released_at): &(i64, i64, i64, Option<i64>)| {
            let state = if released_at.is_some() {
                "RELEASED"
            } else {
                "ACQUIRED"
            };
            PermitRow {
                external_id: format!("r{fence}"),
                semaphore: "s".into(),
                count,
                fence,
                slots: None,
                owner: None,
                state: state.into(),
                end_reason: released_at.map(|_| "released".into()),
                granted_at,
                expires_at: None,
                released_at,
            }
        };
        let semaphore = SemaphoreRow {
            name: "s".into(),
            capacity: 2,
            in_use,
            fence: 9,
            created_at: 0,
            is_deleted: false,
        };
        Rows {
            semaphores: vec![semaphore],
            permits: permits.iter().map(permit).collect(),
            capacity_changes: Vec::new(),
        }
    }

    fn found(in_use: i64, permits: &[(i64, i64, i64, Option<i64>)]) -> Vec<String> {
        violations(&rows(in_use, permits))
            .iter()
            .map(|text| text[..2].to_owned())
            .collect()
    }

    #[test]
    fn a_true_history_passes() {
        let history = [
            (1, 1, 10, Some(30)),
            (2, 1, 20, None),
            (3, 1, 30, Some(30)),
            (4, 1, 30, None),
        ];
        assert!(found(2, &history).is_empty());
    }

    #[test]
    fn an_over_grant_long_ago_is_caught() {
        assert_eq!(
            found(0, &[(1, 1, 10, Some(30)), (2, 2, 20, Some(30))]),
            ["P1"]
        );
    }

    #[test]
    fn a_grant_is_held_against_the_capacity_of_its_time() {
        let change = |old_capacity, new_capacity, changed_at| CapacityChangeRow {
            semaphore: "s".into(),
            old_capacity,
            new_capacity,
            changed_at,
        };
        // The capacity goes from 3 to 1 at 20, and to 2 at 30.
        let found = |permits| {
            let mut rows = rows(0, permits);
            rows.capacity_changes = vec![change(3, 1, 20), change(1, 2, 30)];
            violations(&rows).len()
        };
        assert_eq!(found(&[(1, 3, 10, Some(40))]), 0);
        assert_eq!(found(&[(1, 3, 20, Some(40))]), 0);
        assert_eq!(found(&[(1, 2, 21, Some(40))]), 1);
        assert_eq!(found(&[(1, 2, 30, Some(40))]), 0);
        assert_eq!(found(&[(1, 3, 31, Some(40))]), 1);
    }

    #[test]
    fn an_end_that_does_not_go_by_the_time_is_caught() {
        let found = |reason: &str, expires_at, released_at| {
            let mut rows = rows(0, &[(1, 1, 10, Some(released_at))]);
            rows.permits[0].expires_at = Some(expires_at);
            rows.permits[0].end_reason = Some(reason.into());
            violations(&rows).len()
        };
        assert_eq!(found("expired", 20, 20), 0);
        assert_eq!(found("expired", 20, 19), 1);
        assert_eq!(found("released", 20, 19), 0);
        assert_eq!(found("released", 20, 20), 1);
    }

    #[test]
    fn a_counter_that_drifted_is_caught() {
        assert_eq!(found(1, &[(1, 1, 10, Some(30))]), ["P2"]);
        assert_eq!(found(0, &[(1, 1, 10, None)]), ["P2"]);
    }

    #[test]
    fn a_request_that_ended_without_a_reason_is_caught() {
        let mut rows = rows(1, &[(1, 1, 10, None)]);
        rows.permits[0].state = "RELEASED".into();
        assert_eq!(violations(&rows).len(), 1);
    }

    #[test]
    fn fences_twice_or_out_of_order_are_caught() {
        assert_eq!(found(2, &[(1, 1, 10, None), (1, 1, 20, None)]), ["P7"]);
        assert_eq!(found(2, &[(1, 1, 20, None), (2, 1, 10, None)]), ["P7"]);
        assert_eq!(found(1, &[(10, 1, 20, None)]), ["P7"]);
    }
}
