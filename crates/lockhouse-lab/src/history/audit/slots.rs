//! P1 for slots: exactly one live permit holds each taken slot, and slots go from 0 to the capacity − 1.

use std::collections::HashMap;

use lockhouse::Slots;

use crate::history::rows::PermitRow;
use crate::history::{Promise, Violation};

/// Checks the permits of one semaphore, in the order of their fences. `capacity_at` gives its capacity at a time.
pub(super) fn broken(capacity_at: impl Fn(i64) -> i64, permits: &[&PermitRow]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: HashMap<u32, &PermitRow> = HashMap::new();
    for permit in permits {
        let Some(text) = &permit.slots else { continue };
        let name = &permit.semaphore;
        let mut break_with = |what: String, other: Option<&PermitRow>| {
            let shown = other.into_iter().chain([*permit]);
            found.push(Violation::new(Promise::P1, what).at(shown));
        };
        let Ok(slots) = text.parse::<Slots>() else {
            break_with(format!("{name}: {text:?} are no slots"), None);
            continue;
        };
        if i64::from(slots.len()) != permit.count {
            let what = format!("{name}: {} have slots {slots:?}", permit.count);
            break_with(what, None);
        }
        let capacity = capacity_at(permit.granted_at);
        for slot in slots.iter() {
            if i64::from(slot) >= capacity {
                break_with(format!("{name}: slot {slot} of {capacity}"), None);
            }
            // A permit that ended in the same microsecond may have ended in the same commit, before the grant.
            let before = last.insert(slot, permit);
            let is_held =
                |other: &&PermitRow| other.released_at.is_none_or(|at| at > permit.granted_at);
            if let Some(other) = before.filter(is_held) {
                break_with(format!("{name}: slot {slot} is held twice"), Some(other));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(permits: &[(&str, i64, i64, Option<i64>)]) -> usize {
        let permit = |(fence, &(slots, count, granted_at, released_at)): (
            i64,
            &(&str, i64, i64, Option<i64>),
        )| PermitRow {
            external_id: format!("r{fence}"),
            semaphore: "s".into(),
            count,
            fence,
            slots: Some(slots.into()),
            owner: None,
            state: "ACQUIRED".into(),
            end_reason: None,
            granted_at,
            expires_at: None,
            released_at,
        };
        let permits: Vec<_> = (1..).zip(permits).map(permit).collect();
        broken(|_| 3, &permits.iter().collect::<Vec<_>>()).len()
    }

    #[test]
    fn a_slot_that_is_held_by_one_at_a_time_passes() {
        assert_eq!(found(&[("1", 1, 10, Some(20)), ("3", 2, 20, None)]), 0);
        assert_eq!(found(&[("1", 1, 10, None), ("6", 2, 20, None)]), 0);
    }

    #[test]
    fn a_slot_that_two_hold_is_caught() {
        assert_eq!(found(&[("1", 1, 10, Some(21)), ("3", 2, 20, None)]), 1);
        assert_eq!(found(&[("1", 1, 10, None), ("1", 1, 20, None)]), 1);
    }

    #[test]
    fn a_slot_beyond_the_capacity_is_caught() {
        assert_eq!(found(&[("4", 1, 10, None)]), 0);
        assert_eq!(found(&[("8", 1, 10, None)]), 1);
    }

    #[test]
    fn a_permit_with_another_number_of_slots_is_caught() {
        assert_eq!(found(&[("3", 1, 10, None)]), 1);
        assert_eq!(found(&[("", 1, 10, None)]), 1);
        assert_eq!(found(&[("x", 1, 10, None)]), 1);
    }
}
