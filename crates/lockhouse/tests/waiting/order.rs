//! The order in which waiters are served.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::Code;
use tokio::time::{sleep, timeout};

use crate::house::{Caller, LONG, ask, grant, house, idle, preferred};

/// One commit releases and grants.
#[tokio::test(start_paused = true)]
async fn a_release_and_the_next_grant_are_one_batch() {
    let (lockhouse, store) = house(&[("a", 2)]).await;
    grant(&lockhouse, ask("held", &[("a", 2)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..10 {
        callers.push(Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await);
    }
    let (batches, commands) = (
        store.batches.load(Ordering::SeqCst),
        store.commands.load(Ordering::SeqCst),
    );
    lockhouse.release("held").await.unwrap();
    idle().await;
    assert_eq!(store.batches.load(Ordering::SeqCst) - batches, 1);
    assert_eq!(
        store.commands.load(Ordering::SeqCst) - commands,
        3,
        "the release, and the waiters that fit"
    );
    let served: Vec<_> = callers.iter().map(Caller::is_answered).collect();
    assert_eq!(served, [&[true; 2][..], &[false; 8]].concat());
}

/// The price is that a permit lies idle until the first waiter can have all its permits.
#[tokio::test(start_paused = true)]
async fn a_big_ask_at_the_head_is_not_overtaken() {
    let (lockhouse, _) = house(&[("a", 3), ("b", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let big = Caller::waits(&lockhouse, ask("big", &[("a", 3), ("b", 1)]), LONG).await;
    let small = Caller::waits(&lockhouse, ask("small", &[("a", 1)]), LONG).await;
    for beside in [ask("x", &[("b", 1)]), ask("x", &[("a", 1)])] {
        let refused = grant(&lockhouse, beside).await.unwrap_err();
        assert_eq!(refused.code(), Code::Exhausted);
    }
    assert!(!small.is_answered());
    lockhouse.release("held").await.unwrap();
    assert_eq!(big.granted().await.permits[0].fence, 2);
    lockhouse.release("big").await.unwrap();
    small.granted().await;
}

/// The line does not affect asks that are refused for another reason, or were granted before.
#[tokio::test(start_paused = true)]
async fn the_line_changes_no_other_answer() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    grant(&lockhouse, ask("ended", &[("a", 1)]))
        .await
        .unwrap_err();
    let _waits = Caller::waits(&lockhouse, ask("waits", &[("a", 1)]), LONG).await;
    let again = lockhouse
        .acquire(ask("held", &[("a", 1)]), LONG)
        .await
        .unwrap();
    assert!(!again.1);
    let mut codes = Vec::new();
    for (id, permits) in [
        ("held", &[("a", 2)][..]),
        ("new", &[("a", 2)]),
        ("new", &[("a", 1), ("nowhere", 1)]),
        ("new", &[("a", 1)]),
    ] {
        codes.push(
            grant(&lockhouse, ask(id, permits))
                .await
                .unwrap_err()
                .code(),
        );
    }
    let expected = [
        Code::IdempotencyConflict,
        Code::ExceedsCapacity,
        Code::UnknownSemaphore,
        Code::Exhausted,
    ];
    assert_eq!(codes, expected);
    lockhouse.release("held").await.unwrap();
    let ended = grant(&lockhouse, ask("held", &[("a", 1)]))
        .await
        .unwrap_err();
    assert_eq!(ended.code(), Code::RequestEnded);
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_is_served_first_and_first_come_within_it() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for (id, priority) in [
        ("low", -1),
        ("one", 0),
        ("high", 3),
        ("two", 0),
        ("higher", 9),
    ] {
        let asked = preferred(priority, ask(id, &[("a", 1)]));
        callers.push((id, Caller::waits(&lockhouse, asked, LONG).await));
    }
    let mut last = "held";
    for id in ["higher", "high", "one", "two", "low"] {
        lockhouse.release(last).await.unwrap();
        let at = callers.iter().position(|(its, _)| *its == id).unwrap();
        callers.swap_remove(at).1.granted().await;
        last = id;
    }
}

/// No waiter waits for ever behind waiters of higher priority.
#[tokio::test(start_paused = true)]
async fn a_step_of_priority_is_worth_ten_seconds_of_waiting() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let patient = Caller::waits(&lockhouse, ask("patient", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(19)).await;
    let soon = preferred(2, ask("soon", &[("a", 1)]));
    let soon = Caller::waits(&lockhouse, soon, LONG).await;
    sleep(Duration::from_secs(2)).await;
    let late = preferred(2, ask("late", &[("a", 1)]));
    let late = Caller::waits(&lockhouse, late, LONG).await;
    lockhouse.release("held").await.unwrap();
    soon.granted().await;
    lockhouse.release("soon").await.unwrap();
    patient.granted().await;
    lockhouse.release("patient").await.unwrap();
    late.granted().await;
}

/// The priority is not part of the ask.
#[tokio::test(start_paused = true)]
async fn the_same_ask_with_another_priority_is_the_same_ask() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("r", &[("a", 1)])).await.unwrap();
    let again = preferred(7, ask("r", &[("a", 1)]));
    assert!(!lockhouse.acquire(again, Duration::ZERO).await.unwrap().1);
}

/// P5: both ask the same, so both get the same answer.
#[tokio::test(start_paused = true)]
async fn two_waiters_under_one_id_get_the_same_grant() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let one = Caller::waits(&lockhouse, ask("r", &[("a", 1)]), LONG).await;
    let _between = Caller::waits(&lockhouse, ask("between", &[("a", 1)]), LONG).await;
    let two = Caller::waits(&lockhouse, ask("r", &[("a", 1)]), LONG).await;
    lockhouse.release("held").await.unwrap();
    let granted = one.granted().await;
    let told = timeout(Duration::from_millis(50), two.answer()).await;
    assert_eq!(told.expect("at once").unwrap(), (granted, false));
}

/// P11: the store rejects the batch, so each of its commands is tried alone.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_not_overtaken_in_a_rejected_batch() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    store.rejects.store(true, Ordering::SeqCst);
    // The definition goes alone, and the later calls share a batch.
    let (first, second) = (ask("first", &[("a", 1)]), ask("second", &[("a", 1)]));
    let (defined, first, released, second) = tokio::join!(
        async { lockhouse.define("a", 1).await },
        timeout(Duration::from_secs(1), lockhouse.acquire(first, LONG)),
        lockhouse.release("held"),
        timeout(Duration::from_secs(1), lockhouse.acquire(second, LONG)),
    );
    defined.unwrap();
    assert!(released.unwrap().now);
    assert!(first.unwrap().unwrap().1, "the first is served");
    assert!(second.is_err(), "the second waits for it");
}
