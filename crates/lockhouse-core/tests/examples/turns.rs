//! P11: a line of waiters, as one batch sees it.

use std::time::Duration;

use lockhouse_core::{Cause, Command, Outcome, PlaceInLine, Priority, Refusal, Turn};

use crate::keeper::{Keeper, ask, end, exhausted};
use crate::words::name;

/// An ask of waiter `number`.
fn waits(number: u64, id: &str, permits: &[(&str, u32)]) -> Command {
    Command::Acquire {
        ask: ask(id, permits),
        turn: Turn {
            place: PlaceInLine::new(Duration::ZERO, Priority::default(), number),
            waits: true,
            ..Turn::default()
        },
    }
}

/// An ask of caller `number`, without a wait.
fn tries(number: u64, id: &str, permits: &[(&str, u32)]) -> Command {
    let Command::Acquire { ask, turn } = waits(number, id, permits) else {
        unreachable!("that is what it makes")
    };
    let turn = Turn {
        waits: false,
        ..turn
    };
    Command::Acquire { ask, turn }
}

fn others_first(names: &[&str]) -> Outcome {
    Err(Refusal::OthersFirst(
        names.iter().map(|text| name(text)).collect(),
    ))
}

#[test]
fn a_small_ask_does_not_overtake_a_big_one() {
    let mut keeper = Keeper::with(&[("a", 3), ("b", 1)]);
    keeper.grant(&ask("held", &[("a", 1)]));
    let batch = [
        waits(1, "big", &[("a", 3), ("b", 1)]),
        waits(2, "small", &[("a", 1)]),
        tries(3, "beside", &[("b", 1)]),
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert_eq!(outcomes[0], Err(exhausted(&["a"])));
    assert_eq!(outcomes[1], others_first(&["a"]));
    assert_eq!(outcomes[2], others_first(&["b"]));
    assert_eq!((keeper.in_use("a"), keeper.in_use("b")), (1, 0));
}

#[test]
fn released_permits_go_to_the_first_waiter() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("held", &[("a", 1)]));
    let batch = [
        tries(3, "late", &[("a", 1)]),
        end("held", Cause::Released { by: None }),
        waits(1, "first", &[("a", 1)]),
        waits(2, "second", &[("a", 1)]),
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert!(outcomes[2].is_ok() && outcomes[3].is_err());
    assert!(keeper.is_live("first"));
}

/// A waiter that came later, and is decided earlier, holds nobody back.
#[test]
fn an_earlier_ask_does_not_wait_for_later_ones() {
    let mut keeper = Keeper::with(&[("a", 2)]);
    keeper.grant(&ask("held", &[("a", 1)]));
    let batch = [waits(2, "big", &[("a", 2)]), waits(1, "small", &[("a", 1)])];
    let outcomes = keeper.batch(&batch).outcomes;
    assert_eq!(outcomes[0], Err(exhausted(&["a"])));
    assert!(outcomes[1].is_ok());
}

/// P5: a repeated ask takes no more permits.
#[test]
fn a_repeated_ask_gets_its_grant_while_others_wait() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let held = keeper.grant(&ask("held", &[("a", 1)]));
    let batch = [
        waits(1, "first", &[("a", 1)]),
        tries(2, "held", &[("a", 1)]),
        tries(3, "held", &[("a", 2)]),
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert_eq!(outcomes[0], Err(exhausted(&["a"])));
    assert!(outcomes[1].is_ok(), "{held:?}");
    let conflict = Refusal::IdempotencyConflict(held.external_id);
    assert_eq!(outcomes[2], Err(conflict));
}

/// Such an ask may never be granted, so other callers need not wait for it.
#[test]
fn an_ask_above_the_capacity_holds_nobody_back() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let batch = [waits(1, "much", &[("a", 2)]), waits(2, "one", &[("a", 1)])];
    let outcomes = keeper.batch(&batch).outcomes;
    assert!(matches!(outcomes[0], Err(Refusal::ExceedsCapacity { .. })));
    assert!(outcomes[1].is_ok());
}

/// P11: a closed semaphore may stay closed for days, so its waiters reserve nothing elsewhere.
#[test]
fn a_waiter_on_a_closed_semaphore_holds_up_nobody_on_others() {
    let mut keeper = Keeper::with(&[("closed", 0), ("a", 1)]);
    let batch = [
        waits(1, "both", &[("closed", 1), ("a", 1)]),
        waits(2, "one", &[("a", 1)]),
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert_eq!(outcomes[0], Err(Refusal::Closed(vec![name("closed")])));
    assert!(outcomes[1].is_ok());
}
