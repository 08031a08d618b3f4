//! Each refusal: when it comes, its code, and that nothing is saved for it.

use lockhouse_core::{Code, Command, EndReason, Refusal, decide};

use crate::keeper::{
    Keeper, ask, define, delete, exhausted, for_ms, gone, owned_by, renew, request_ended, resize,
    resize_from, unknown_semaphore,
};
use crate::rows::Rows;
use crate::words::{at, capacity, count, id, name};

/// Asserts this refusal, with its code, and with nothing to save (P5).
fn assert_refused(keeper: &mut Keeper, command: Command, refusal: Refusal, code: Code) {
    assert_eq!(refusal.code(), code);
    let decision = keeper.batch(&[command]);
    assert!(decision.changes.is_empty(), "{:?}", decision.changes);
    assert_eq!(decision.outcomes, [Err(refusal)]);
}

/// `a` of 2 permits, one of them held by `one`.
fn keeper() -> Keeper {
    let mut keeper = Keeper::with(&[("a", 2), ("b", 2)]);
    keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
    keeper
}

#[test]
fn unknown_semaphore_names_all_that_are_missing() {
    let command = Command::acquire(ask("two", &[("d", 1), ("a", 1), ("c", 1)]));
    let refusal = unknown_semaphore(&["c", "d"]);
    assert_refused(&mut keeper(), command, refusal, Code::UnknownSemaphore);
}

#[test]
fn unknown_semaphore_when_it_must_exist_and_does_not() {
    let refusal = unknown_semaphore(&["c"]);
    assert_refused(
        &mut keeper(),
        resize("c", 1),
        refusal.clone(),
        Code::UnknownSemaphore,
    );
    assert_refused(&mut keeper(), delete("c"), refusal, Code::UnknownSemaphore);
}

#[test]
fn unknown_semaphore_once_it_is_deleted() {
    let mut keeper = keeper();
    keeper.run(delete("b")).unwrap();
    let refusal = unknown_semaphore(&["b"]);
    for command in [
        delete("b"),
        resize("b", 9),
        Command::acquire(ask("two", &[("b", 1)])),
    ] {
        assert_refused(
            &mut keeper,
            command,
            refusal.clone(),
            Code::UnknownSemaphore,
        );
    }
}

/// A semaphore that the store did not load does not exist, so defining it creates it.
#[test]
fn a_semaphore_without_a_row_is_among_the_changes_that_define_it() {
    let loaded = Rows::default().load(at(0), &[]);
    let decision = decide(loaded, &[define("c", 1)]);
    let [created] = &decision.changes.semaphores[..] else {
        panic!("{decision:?}")
    };
    assert!(created.exists() && created.name == name("c"));
}

#[test]
fn unknown_request() {
    let refusal = Refusal::UnknownRequest(id("two"));
    let commands = [
        renew("two", Some(1)),
        renew("two", None),
        Command::release(id("two")),
    ];
    for command in commands {
        assert_refused(
            &mut keeper(),
            command,
            refusal.clone(),
            Code::UnknownRequest,
        );
    }
}

#[test]
fn exceeds_capacity_says_what_there_is_at_all() {
    let command = Command::acquire(ask("two", &[("a", 3), ("b", 1)]));
    let refusal = Refusal::ExceedsCapacity {
        semaphore: name("a"),
        asked: count(3),
        capacity: capacity(2),
    };
    assert_refused(&mut keeper(), command, refusal, Code::ExceedsCapacity);
}

/// Closed means paused: an ask may wait for it, so its code is that of a full semaphore.
#[test]
fn closed_names_all_that_are_closed_and_is_exhausted() {
    let mut keeper = keeper();
    for name in ["c", "d"] {
        keeper.run(define(name, 0)).unwrap();
    }
    let command = Command::acquire(ask("two", &[("d", 1), ("a", 2), ("c", 7)]));
    let refusal = Refusal::Closed(vec![name("c"), name("d")]);
    assert_refused(&mut keeper, command, refusal, Code::Exhausted);
}

#[test]
fn exhausted_names_all_that_lack_room_and_no_others() {
    let mut keeper = keeper();
    keeper.run(define("c", 1)).unwrap();
    keeper.grant(&ask("two", &[("c", 1)]));
    let command = Command::acquire(ask("three", &[("c", 1), ("b", 1), ("a", 2)]));
    assert_refused(
        &mut keeper,
        command,
        exhausted(&["a", "c"]),
        Code::Exhausted,
    );
}

/// A permanent refusal comes before a temporary one.
#[test]
fn unknown_comes_before_exceeds_and_that_before_exhausted() {
    let acquire = |permits: &[(&str, u32)]| Command::acquire(ask("two", permits));
    let exceeds = Refusal::ExceedsCapacity {
        semaphore: name("b"),
        asked: count(3),
        capacity: capacity(2),
    };
    let all = acquire(&[("a", 2), ("b", 3), ("c", 1)]);
    let refusal = unknown_semaphore(&["c"]);
    assert_refused(&mut keeper(), all, refusal, Code::UnknownSemaphore);
    let known = acquire(&[("a", 2), ("b", 3)]);
    assert_refused(&mut keeper(), known, exceeds, Code::ExceedsCapacity);
}

#[test]
fn idempotency_conflict() {
    let command = Command::acquire(ask("one", &[("a", 1)]));
    let refusal = Refusal::IdempotencyConflict(id("one"));
    assert_refused(&mut keeper(), command, refusal, Code::IdempotencyConflict);
}

#[test]
fn request_ended_says_how() {
    let mut keeper = keeper();
    keeper.end("one", gone("x")).unwrap();
    let refusal = request_ended("one", EndReason::OwnerDead);
    let again = Command::acquire(owned_by("x", ask("one", &[("a", 1)])));
    for command in [again, renew("one", Some(5)), renew("one", None)] {
        assert_refused(&mut keeper, command, refusal.clone(), Code::RequestEnded);
    }
}

#[test]
fn a_renewal_needs_a_ttl_once() {
    let mut keeper = keeper();
    let refusal = Refusal::NoTtl(id("one"));
    assert_refused(
        &mut keeper,
        renew("one", None),
        refusal,
        Code::InvalidRequest,
    );
    keeper.run(renew("one", Some(5))).unwrap();
    keeper.run(renew("one", None)).unwrap();
}

#[test]
fn semaphore_in_use_says_how_much() {
    let refusal = Refusal::SemaphoreInUse {
        name: name("a"),
        in_use: 1,
    };
    assert_refused(&mut keeper(), delete("a"), refusal, Code::SemaphoreInUse);
}

#[test]
fn capacity_changed_says_what_it_is() {
    let refusal = Refusal::CapacityChanged {
        name: name("a"),
        expected: capacity(3),
        capacity: capacity(2),
    };
    let command = resize_from("a", 3, 5);
    assert_refused(&mut keeper(), command, refusal, Code::CapacityChanged);
}

/// A refusal saves only the end of a request that had expired (P4).
#[test]
fn a_refusal_saves_the_end_of_what_had_expired_and_nothing_else() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    keeper.wait_ms(10);
    let changes = keeper.batch(&[renew("one", None)]).changes;
    assert_eq!((changes.ended.len(), changes.semaphores.len()), (1, 1));
    assert!(changes.renewed.is_empty() && changes.granted.is_empty());
}
