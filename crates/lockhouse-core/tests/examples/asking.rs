//! P5: one id, one ask, one grant.

use lockhouse_core::{Cause, Command, EndReason, Refusal, Reply};

use crate::keeper::{
    Keeper, ask, causes_that_hold, define, end, exhausted, for_ms, owned_by, request_ended, resize,
};
use crate::words::id;

/// P5.
#[test]
fn the_same_ask_gives_the_same_grant_any_number_of_times() {
    let mut keeper = Keeper::with(&[("a", 2), ("b", 1)]);
    let first = keeper.grant(&owned_by("x", ask("one", &[("a", 1), ("b", 1)])));
    keeper.grant(&ask("two", &[("a", 1)]));
    for _ in 0..3 {
        keeper.wait_ms(1);
        let again = keeper.acquire(&owned_by("x", ask("one", &[("b", 1), ("a", 1)])));
        assert_eq!(again, Ok((first.clone(), false)));
    }
    assert_eq!((keeper.in_use("a"), keeper.in_use("b")), (2, 1));
}

/// P5: the TTL does not count, and the first ask's TTL stays.
#[test]
fn another_ttl_is_the_same_ask() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let first = keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    let again = keeper.acquire(&for_ms(99, ask("one", &[("a", 1)])));
    assert_eq!(again, Ok((first.clone(), false)));
    let again = keeper.acquire(&ask("one", &[("a", 1)]));
    assert_eq!(again, Ok((first, false)));
}

/// P5: the repeated answer does not depend on later changes of the semaphore.
#[test]
fn the_same_ask_is_granted_still_after_the_semaphore_was_closed() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let first = keeper.grant(&ask("one", &[("a", 1)]));
    keeper.run(resize("a", 0)).unwrap();
    let again = keeper.acquire(&ask("one", &[("a", 1)]));
    assert_eq!(again, Ok((first, false)));
}

/// P5.
#[test]
fn two_of_the_same_ask_in_a_batch_are_one_grant() {
    let mut keeper = Keeper::with(&[("a", 2)]);
    let acquire = Command::acquire(ask("one", &[("a", 1)]));
    let decision = keeper.batch(&[acquire.clone(), acquire]);
    let [
        Ok(Reply::Granted {
            request: first,
            now: true,
            ..
        }),
        Ok(Reply::Granted {
            request: second,
            now: false,
            ..
        }),
    ] = &decision.outcomes[..]
    else {
        panic!("{decision:?}");
    };
    assert_eq!(first, second);
    assert_eq!((decision.changes.granted.len(), keeper.in_use("a")), (1, 1));
}

/// P5.
#[test]
fn after_its_end_an_id_is_never_granted_again() {
    for cause in causes_that_hold() {
        let mut keeper = Keeper::with(&[("a", 1)]);
        let of_x = owned_by("x", ask("one", &[("a", 1)]));
        keeper.grant(&of_x);
        let reason = cause.reason();
        assert!(keeper.end("one", cause).unwrap().1);
        let again = keeper.acquire(&of_x);
        assert_eq!(again, Err(request_ended("one", reason)));
        assert_eq!(keeper.in_use("a"), 0);
    }
}

/// P5.
#[test]
fn ended_in_the_same_batch_is_ended() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let acquire = Command::acquire(ask("one", &[("a", 1)]));
    let batch = [
        acquire.clone(),
        end("one", Cause::Released { by: None }),
        acquire,
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert_eq!(outcomes[2], Err(request_ended("one", EndReason::Released)));
}

/// P5: another count, semaphore or owner is another ask, live or ended.
#[test]
fn a_different_ask_under_the_same_id_is_a_conflict() {
    let mut keeper = Keeper::with(&[("a", 9), ("b", 9)]);
    keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
    let others = [
        owned_by("x", ask("one", &[("a", 2)])),
        owned_by("x", ask("one", &[("b", 1)])),
        owned_by("x", ask("one", &[("a", 1), ("b", 1)])),
        owned_by("x", ask("one", &[("unknown", 1)])),
        owned_by("y", ask("one", &[("a", 1)])),
        ask("one", &[("a", 1)]),
    ];
    for _ in ["live", "ended"] {
        for other in &others {
            let conflict = Refusal::IdempotencyConflict(id("one"));
            assert_eq!(keeper.acquire(other), Err(conflict), "{other:?}");
        }
        keeper.end("one", Cause::Released { by: None }).unwrap();
    }
}

/// P5.
#[test]
fn a_refused_ask_leaves_no_trace_and_its_id_may_try_again() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    assert_eq!(
        keeper.acquire(&ask("two", &[("a", 1)])),
        Err(exhausted(&["a"]))
    );
    assert_eq!(keeper.request("two"), None);
    keeper.run(define("b", 3)).unwrap();
    let (other, now) = keeper.acquire(&ask("two", &[("b", 3)])).unwrap();
    assert!(now);
    assert_eq!(other.permits[0].fence, 1);
}
