//! A resize from an expected capacity: done only if nobody else changed it meanwhile.

use lockhouse_core::{Refusal, Reply};

use crate::keeper::{Keeper, define, delete, resize_from, unknown_semaphore};
use crate::words::{capacity, name};

fn changed(expected: u32, now: u32) -> Refusal {
    Refusal::CapacityChanged {
        name: name("a"),
        expected: capacity(expected),
        capacity: capacity(now),
    }
}

#[test]
fn of_two_resizes_from_the_same_capacity_one_is_refused() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    let outcomes = keeper
        .batch(&[resize_from("a", 4, 5), resize_from("a", 4, 6)])
        .outcomes;
    assert!(matches!(
        outcomes[0],
        Ok(Reply::Defined { created: false, .. })
    ));
    assert_eq!(outcomes[1], Err(changed(4, 5)));
    assert_eq!(keeper.semaphore("a").capacity, capacity(5));
}

/// P9: a caller that lost the answer may send the resize again.
#[test]
fn the_same_resize_again_is_answered_as_before_and_saves_nothing() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    let first = keeper.run(resize_from("a", 4, 5));
    assert!(first.is_ok());
    keeper.wait_ms(3);
    let again = keeper.batch(&[resize_from("a", 4, 5)]);
    assert_eq!(again.outcomes, [first]);
    assert!(again.changes.is_empty());
}

#[test]
fn a_resize_again_after_somebody_else_s_is_refused() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    keeper.run(resize_from("a", 4, 5)).unwrap();
    keeper.run(define("a", 9)).unwrap();
    assert_eq!(keeper.run(resize_from("a", 4, 5)), Err(changed(4, 9)));
}

#[test]
fn a_resize_with_an_expected_capacity_creates_nothing() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    let unknown = unknown_semaphore(&["b"]);
    assert_eq!(keeper.run(resize_from("b", 0, 5)), Err(unknown));
    keeper.run(delete("a")).unwrap();
    let deleted = unknown_semaphore(&["a"]);
    assert_eq!(keeper.run(resize_from("a", 4, 4)), Err(deleted));
}

#[test]
fn a_conditional_resize_is_in_the_audit() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    let audit = keeper
        .batch(&[resize_from("a", 4, 5)])
        .changes
        .capacity_changes;
    assert_eq!(audit.len(), 1);
    assert_eq!(
        (audit[0].old_capacity, audit[0].new_capacity),
        (capacity(4), capacity(5))
    );
}
