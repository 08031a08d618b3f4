//! The changes for a store to save: every change, once, in order.

use lockhouse_core::{CapacityChange, Cause, Command, Definition, EndReason, Note, Reply};

use crate::keeper::{Keeper, ask, define, delete, end, for_ms, forced, goodbye, heartbeat, renew};
use crate::words::{at, capacity, id, name, owner, ttl};

#[test]
fn a_request_granted_and_ended_in_one_batch_is_one_insert() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let acquire = Command::acquire(for_ms(10, ask("one", &[("a", 1)])));
    let batch = [acquire, renew("one", Some(20)), end("one", forced(None))];
    let changes = keeper.batch(&batch).changes;
    assert!(changes.renewed.is_empty() && changes.ended.is_empty());
    let [inserted] = &changes.granted[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(inserted.end_reason(), Some(EndReason::Forced));
    assert_eq!(
        (inserted.ttl, inserted.expires_at),
        (Some(ttl(20)), Some(at(20)))
    );
    assert_eq!(changes.semaphores[0].in_use, 0);
    assert_eq!(changes.semaphores[0].fence, 1, "the fence was used");
}

#[test]
fn a_request_renewed_and_ended_in_one_batch_is_in_both_lists() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    let batch = [renew("one", Some(20)), end("one", forced(None))];
    let changes = keeper.batch(&batch).changes;
    assert_eq!((changes.renewed.len(), changes.ended.len()), (1, 1));
    let request = keeper.request("one").expect("it was granted");
    assert_eq!(request.ttl, Some(ttl(20)));
    assert_eq!(request.end_reason(), Some(EndReason::Forced));
}

#[test]
fn each_list_is_in_byte_order() {
    let mut keeper = Keeper::with(&[("b", 9), ("B", 9), ("a", 9)]);
    let acquire = |id, on| Command::acquire(ask(id, &[(on, 1)]));
    let batch = [acquire("z", "b"), acquire("Z", "a"), acquire("y", "B")];
    let changes = keeper.batch(&batch).changes;
    let names = changes.semaphores.iter().map(|row| row.name.as_str());
    assert!(names.eq(["B", "a", "b"]));
    let ids = changes.granted.iter().map(|row| row.external_id.as_str());
    assert!(ids.eq(["Z", "y", "z"]));

    let batch = ["z", "Z", "y"].map(|id| renew(id, Some(9)));
    let changes = keeper.batch(&batch).changes;
    assert!(
        changes
            .renewed
            .iter()
            .map(|row| row.external_id.as_str())
            .eq(["Z", "y", "z"])
    );
    assert!(
        changes.semaphores.is_empty(),
        "a renewal writes no semaphore"
    );

    let batch = ["z", "Z", "y"].map(|text| Command::release(id(text)));
    let changes = keeper.batch(&batch).changes;
    assert!(
        changes
            .ended
            .iter()
            .map(|row| row.external_id.as_str())
            .eq(["Z", "y", "z"])
    );
}

#[test]
fn asking_again_saves_nothing() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    let again = [Command::acquire(ask("one", &[("a", 1)])), define("a", 1)];
    assert!(keeper.batch(&again).changes.is_empty());
    keeper.end("one", Cause::Released { by: None }).unwrap();
    assert!(
        keeper
            .batch(&[Command::release(id("one"))])
            .changes
            .is_empty()
    );
}

#[test]
fn an_end_writes_every_semaphore_that_it_gives_back_to() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 1), ("c", 1)]);
    keeper.grant(&ask("one", &[("c", 1), ("a", 1)]));
    let changes = keeper.batch(&[Command::release(id("one"))]).changes;
    let names = changes.semaphores.iter().map(|row| row.name.as_str());
    assert!(names.eq(["a", "c"]));
}

#[test]
fn every_resize_is_in_the_audit_in_the_order_it_was_made() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.wait_ms(5);
    let to = |number| {
        Command::Define(Definition {
            must_exist: true,
            changed_by: Some(owner("x")),
            note: Note::parse("the night shift").ok(),
            ..Definition::new(name("a"), capacity(number))
        })
    };
    let row = |old, new| CapacityChange {
        semaphore: name("a"),
        old_capacity: capacity(old),
        new_capacity: capacity(new),
        changed_by: Some(owner("x")),
        note: Note::parse("the night shift").ok(),
        changed_at: at(5),
    };
    let changes = keeper.batch(&[to(9), to(9), to(3)]).changes;
    assert_eq!(changes.capacity_changes, [row(1, 9), row(9, 3)]);
    assert_eq!(changes.semaphores.len(), 1);
}

#[test]
fn a_definition_says_whether_it_created() {
    let mut keeper = Keeper::with(&[]);
    let mut created = |command| match keeper.run(command) {
        Ok(Reply::Defined { semaphore, created }) => (semaphore.capacity.value(), created),
        other => panic!("{other:?}"),
    };
    assert_eq!(created(define("a", 1)), (1, true));
    assert_eq!(created(define("a", 1)), (1, false));
    assert_eq!(created(define("a", 2)), (2, false));
}

#[test]
fn a_semaphore_that_comes_back_is_new_but_for_its_fence() {
    let mut keeper = Keeper::with(&[("a", 4)]);
    keeper.wait_ms(5);
    let decision = keeper.batch(&[delete("a"), define("a", 4)]);
    assert!(matches!(
        decision.outcomes[1],
        Ok(Reply::Defined { created: true, .. })
    ));
    assert!(decision.changes.capacity_changes.is_empty());
    let row = keeper.semaphore("a");
    assert_eq!(
        (row.created_at, row.updated_at, row.deleted_at),
        (at(5), at(5), None)
    );
}

#[test]
fn two_heartbeats_in_a_batch_are_one_write() {
    let mut keeper = Keeper::with(&[]);
    let batch = [heartbeat("y", 5), heartbeat("x", 9), heartbeat("y", 7)];
    let heard = keeper.batch(&batch).changes.heartbeats;
    let written = heard
        .iter()
        .map(|session| (session.owner.as_str(), session.ttl));
    assert!(written.eq([("x", ttl(9)), ("y", ttl(7))]));
}

#[test]
fn the_last_word_of_an_owner_in_a_batch_is_what_is_saved() {
    let mut keeper = Keeper::with(&[]);
    keeper.run(heartbeat("x", 5)).unwrap();
    let changes = keeper.batch(&[goodbye("x"), heartbeat("x", 9)]).changes;
    assert_eq!((changes.heartbeats.len(), changes.goodbyes.len()), (1, 0));
    let changes = keeper.batch(&[heartbeat("x", 5), goodbye("x")]).changes;
    assert_eq!((changes.heartbeats.len(), changes.goodbyes.len()), (0, 1));
    assert!(keeper.batch(&[goodbye("x")]).changes.is_empty());
}

#[test]
fn an_end_of_what_is_inserted_names_its_operator_in_the_insert() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let acquire = Command::acquire(ask("one", &[("a", 1)]));
    let changes = keeper
        .batch(&[acquire, end("one", forced(Some("op")))])
        .changes;
    assert!(changes.ended.is_empty());
    assert_eq!(changes.granted[0].ended_by, Some(owner("op")));
}

/// Changes that others may wait for: more room than before the batch, and deletions.
#[test]
fn only_what_makes_more_room_is_freed() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 2)]);
    let acquire = |id, on| Command::acquire(ask(id, &[(on, 1)]));
    let release = |text| Command::release(id(text));
    let mut freed = |batch: &[Command]| {
        let freed = keeper.batch(batch).changes.freed.into_iter();
        freed.map(|freed| freed.semaphore).collect::<Vec<_>>()
    };
    assert_eq!(freed(&[acquire("one", "a"), acquire("x", "b")]), []);
    assert_eq!(freed(&[release("one"), acquire("two", "a")]), []);
    assert_eq!(
        freed(&[release("two"), release("x")]),
        [name("a"), name("b")]
    );
    assert_eq!(
        freed(&[acquire("y", "b"), acquire("z", "b"), define("b", 1)]),
        []
    );
    assert_eq!(freed(&[release("y")]), [], "more is in use than there is");
    assert_eq!(freed(&[define("b", 3)]), [name("b")]);
    assert_eq!(freed(&[delete("a")]), [name("a")]);
    assert_eq!(freed(&[renew("z", Some(9))]), []);
}
