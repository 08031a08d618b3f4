//! P7: fences rise.

use lockhouse_core::{Cause, Command, Epoch, Request};

use crate::keeper::{Keeper, ask, define, delete, exhausted};
use crate::words::name;

fn fences(request: &Request) -> Vec<u64> {
    request.permits.iter().map(|permit| permit.fence).collect()
}

/// P7.
#[test]
fn each_grant_on_a_semaphore_has_a_higher_fence() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let mut last = 0;
    for i in 0..5 {
        let id = format!("job-{i}");
        let [fence] = fences(&keeper.grant(&ask(&id, &[("a", 1)])))[..] else {
            panic!("one semaphore, one fence");
        };
        assert!(fence > last);
        last = fence;
        keeper.end(&id, Cause::Released { by: None }).unwrap();
    }
}

/// P7: fences show which grants came before a change of the capacity, even if the clock was set
/// back. A change to the same capacity takes no fence.
#[test]
fn a_change_of_the_capacity_takes_a_fence() {
    let mut keeper = Keeper::with(&[("a", 9)]);
    assert_eq!(fences(&keeper.grant(&ask("one", &[("a", 1)]))), [1]);
    keeper.wait_ms(-1_000);
    keeper.run(define("a", 8)).unwrap();
    keeper.run(define("a", 8)).unwrap();
    assert_eq!(keeper.semaphore("a").fence, 2);
    assert_eq!(fences(&keeper.grant(&ask("two", &[("a", 1)]))), [3]);
}

/// P7: a grant of several permits takes one fence, and each semaphore has its own fences.
#[test]
fn semaphores_count_their_grants_apart() {
    let mut keeper = Keeper::with(&[("a", 9), ("b", 9)]);
    assert_eq!(fences(&keeper.grant(&ask("one", &[("a", 4)]))), [1]);
    assert_eq!(
        fences(&keeper.grant(&ask("two", &[("b", 2), ("a", 2)]))),
        [2, 1]
    );
    assert_eq!(fences(&keeper.grant(&ask("three", &[("b", 1)]))), [2]);
}

/// P7.
#[test]
fn a_semaphore_that_comes_back_continues_its_fence() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    assert_eq!(fences(&keeper.grant(&ask("one", &[("a", 1)]))), [1]);
    keeper.end("one", Cause::Released { by: None }).unwrap();
    keeper.run(delete("a")).unwrap();
    keeper.run(define("a", 1)).unwrap();
    assert_eq!(fences(&keeper.grant(&ask("two", &[("a", 1)]))), [2]);
}

/// P7: the same within one batch.
#[test]
fn deleting_and_defining_in_a_batch_continues_the_fence() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.end("one", Cause::Released { by: None }).unwrap();
    let outcomes = keeper.batch(&[delete("a"), define("a", 5)]).outcomes;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(fences(&keeper.grant(&ask("two", &[("a", 1)]))), [2]);
}

/// P7: a refusal takes no fence.
#[test]
fn a_refused_ask_moves_no_fence() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    assert_eq!(
        keeper.acquire(&ask("two", &[("a", 1)])),
        Err(exhausted(&["a"]))
    );
    assert_eq!(keeper.semaphore("a").fence, 1);
}

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).expect("it is in bounds")
}

fn raise(text: &str, number: u32) -> Command {
    Command::RaiseFence {
        name: name(text),
        epoch: epoch(number),
    }
}

/// P7: nothing else of the row changes. A fence that is as high already stays.
#[test]
fn a_raised_fence_is_that_of_the_epoch_and_never_lower() {
    let mut keeper = Keeper::with(&[("a", 2), ("b", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.run(delete("b")).unwrap();
    let before = keeper.semaphore("a").clone();
    keeper.batch(&[raise("a", 2), raise("b", 2)]);
    assert_eq!(keeper.semaphore("a").fence, 2 << 32);
    assert_eq!(keeper.semaphore("a").in_use, before.in_use);
    assert_eq!(keeper.semaphore("a").updated_at, before.updated_at);
    assert_eq!(keeper.semaphore("b").fence, 2 << 32);
    assert!(!keeper.semaphore("b").exists());
    let second = fences(&keeper.grant(&ask("two", &[("a", 1)])));
    assert_eq!(second, [(2 << 32) + 1]);
    for lower in [1, 2] {
        let decision = keeper.batch(&[raise("a", lower)]);
        assert!(decision.changes.is_empty(), "{decision:?}");
    }
}

/// P7: the database before the restore may have had the name.
#[test]
fn a_new_semaphore_begins_with_the_stores_epoch() {
    let mut keeper = Keeper::with(&[("old", 1)]);
    let of_the_store = Epoch::semaphore();
    keeper.run(raise(of_the_store.as_str(), 3)).unwrap();
    assert!(!keeper.semaphore(of_the_store.as_str()).exists());
    keeper.run(define("new", 1)).unwrap();
    assert_eq!(
        fences(&keeper.grant(&ask("one", &[("new", 1)]))),
        [(3 << 32) + 1]
    );
    // Only a created semaphore begins at the epoch. A change of an existing one takes the next fence.
    keeper.run(define("old", 2)).unwrap();
    assert_eq!(keeper.semaphore("old").fence, 1);
}
