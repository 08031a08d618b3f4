//! P1, P2 and P6: room, counting, and several semaphores at once.

use lockhouse_core::{Cause, Command, Refusal, Reply};

use crate::keeper::{
    Keeper, ask, define, delete, end, exhausted, forced, resize, unknown_semaphore,
};
use crate::words::name;

/// P1.
#[test]
fn permits_are_granted_up_to_the_capacity_and_no_further() {
    let mut keeper = Keeper::with(&[("a", 3)]);
    keeper.grant(&ask("one", &[("a", 2)]));
    assert_eq!(
        keeper.acquire(&ask("two", &[("a", 2)])),
        Err(exhausted(&["a"]))
    );
    keeper.grant(&ask("three", &[("a", 1)]));
    assert_eq!(
        keeper.acquire(&ask("four", &[("a", 1)])),
        Err(exhausted(&["a"]))
    );
}

/// P1.
#[test]
fn a_closed_semaphore_grants_nothing() {
    let mut keeper = Keeper::with(&[("a", 0)]);
    keeper.run(define("b", 1)).unwrap();
    keeper.grant(&ask("held", &[("b", 1)]));
    for permits in [&[("a", 1)][..], &[("a", 9)], &[("a", 1), ("b", 1)]] {
        let closed = Refusal::Closed(vec![name("a")]);
        assert_eq!(keeper.acquire(&ask("one", permits)), Err(closed));
    }
    keeper.run(resize("a", 1)).unwrap();
    keeper.grant(&ask("one", &[("a", 1)]));
}

/// P1.
#[test]
fn a_resize_below_what_is_in_use_revokes_nothing_and_grants_nothing_until_there_is_room() {
    let mut keeper = Keeper::with(&[("a", 3)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.grant(&ask("two", &[("a", 2)]));
    keeper.run(resize("a", 1)).unwrap();
    assert!(keeper.is_live("one") && keeper.is_live("two"));
    assert_eq!(
        (keeper.in_use("a"), keeper.semaphore("a").available()),
        (3, 0)
    );

    keeper.end("two", Cause::Released { by: None }).unwrap();
    assert_eq!(
        keeper.acquire(&ask("three", &[("a", 1)])),
        Err(exhausted(&["a"]))
    );
    keeper.end("one", Cause::Released { by: None }).unwrap();
    keeper.grant(&ask("three", &[("a", 1)]));
}

/// P1: within a batch, the commands before a grant decide the capacity that applies to it.
#[test]
fn a_resize_counts_for_the_commands_after_it_in_its_batch() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let acquire = |id| Command::acquire(ask(id, &[("a", 1)]));
    let batch = [
        acquire("one"),
        acquire("two"),
        define("a", 2),
        acquire("three"),
    ];
    let outcomes = keeper.batch(&batch).outcomes;
    assert!(outcomes[0].is_ok());
    assert_eq!(outcomes[1], Err(exhausted(&["a"])));
    assert!(outcomes[3].is_ok());
    assert_eq!(keeper.in_use("a"), 2);
}

/// P1: the capacity at a grant's turn in the batch applies to it. A later resize revokes nothing.
#[test]
fn a_resize_after_a_grant_in_its_batch_revokes_nothing() {
    let mut keeper = Keeper::with(&[("a", 2)]);
    let batch = [Command::acquire(ask("one", &[("a", 2)])), resize("a", 1)];
    assert!(keeper.batch(&batch).outcomes.iter().all(Result::is_ok));
    assert!(keeper.is_live("one"));
    assert_eq!(
        (keeper.in_use("a"), keeper.semaphore("a").available()),
        (2, 0)
    );
}

/// P2.
#[test]
fn in_use_is_the_sum_of_what_is_held() {
    let mut keeper = Keeper::with(&[("a", 5), ("b", 5)]);
    keeper.grant(&ask("one", &[("a", 2)]));
    keeper.grant(&ask("two", &[("a", 1), ("b", 4)]));
    assert_eq!((keeper.in_use("a"), keeper.in_use("b")), (3, 4));
    keeper.end("two", forced(None)).unwrap();
    assert_eq!((keeper.in_use("a"), keeper.in_use("b")), (2, 0));
}

/// P2.
#[test]
fn a_held_semaphore_is_not_deleted() {
    let mut keeper = Keeper::with(&[("a", 3)]);
    keeper.grant(&ask("one", &[("a", 2)]));
    let in_use = Refusal::SemaphoreInUse {
        name: name("a"),
        in_use: 2,
    };
    assert_eq!(keeper.run(delete("a")), Err(in_use));
    keeper.end("one", Cause::Released { by: None }).unwrap();
    assert_eq!(keeper.run(delete("a")), Ok(Reply::Deleted));
    assert_eq!(
        keeper.acquire(&ask("two", &[("a", 1)])),
        Err(unknown_semaphore(&["a"]))
    );
}

/// P6.
#[test]
fn an_ask_on_several_semaphores_takes_from_none_when_one_lacks_room() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 1), ("c", 1)]);
    keeper.grant(&ask("one", &[("b", 1)]));
    let all = ask("two", &[("a", 1), ("b", 1), ("c", 1)]);
    assert_eq!(keeper.acquire(&all), Err(exhausted(&["b"])));
    assert_eq!((keeper.in_use("a"), keeper.in_use("c")), (0, 0));
    assert_eq!(keeper.semaphore("a").fence, 0);

    keeper.end("one", Cause::Released { by: None }).unwrap();
    assert_eq!(keeper.grant(&all).permits.len(), 3);
    assert_eq!(
        (keeper.in_use("a"), keeper.in_use("b"), keeper.in_use("c")),
        (1, 1, 1)
    );
}

/// P6: the commit that ends a request frees its permits on every semaphore.
#[test]
fn room_given_back_in_a_batch_is_there_for_the_next_ask_in_it() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 1)]);
    keeper.grant(&ask("one", &[("a", 1), ("b", 1)]));
    let next = ask("two", &[("b", 1), ("a", 1)]);
    let batch = [
        end("one", Cause::Released { by: None }),
        Command::acquire(next),
    ];
    assert!(keeper.batch(&batch).outcomes.iter().all(Result::is_ok));
    assert!(keeper.is_live("two") && !keeper.is_live("one"));
}
