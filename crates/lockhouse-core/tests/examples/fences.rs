//! P7: fences rise.

use lockhouse_core::{Cause, Request};

use crate::keeper::{Keeper, ask, define, delete, exhausted};

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
        keeper.end(&id, Cause::Released).unwrap();
    }
}

/// P7: what was granted before a change of the capacity and what after is told by the fences, even
/// if the clock was set back. What changes nothing takes none.
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

/// P7: a grant of many is one grant, and each semaphore has fences of its own.
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
    keeper.end("one", Cause::Released).unwrap();
    keeper.run(delete("a")).unwrap();
    keeper.run(define("a", 1)).unwrap();
    assert_eq!(fences(&keeper.grant(&ask("two", &[("a", 1)]))), [2]);
}

/// P7: and within one batch as well.
#[test]
fn deleting_and_defining_in_a_batch_continues_the_fence() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.end("one", Cause::Released).unwrap();
    let outcomes = keeper.batch(&[delete("a"), define("a", 5)]).outcomes;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(fences(&keeper.grant(&ask("two", &[("a", 1)]))), [2]);
}

/// P7: only grants move it.
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
