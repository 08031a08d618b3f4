//! Semaphores that shrink, close or are deleted while callers wait for them.

use std::time::Duration;

use lockhouse::{Code, Error, Lockhouse, Refusal};
use tokio::time::{sleep, timeout};

use crate::house::{Caller, LONG, ask, grant, house, idle, name};

/// Closed means paused: asks that wait go on waiting, and asks that do not wait are refused.
#[tokio::test(start_paused = true)]
async fn a_waiter_goes_on_waiting_when_the_semaphore_is_closed() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let first = Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await;
    let short = Caller::waits(
        &lockhouse,
        ask("short", &[("a", 1)]),
        Duration::from_secs(60),
    )
    .await;
    lockhouse.define("a", 0).await.unwrap();
    lockhouse.release("held").await.unwrap();
    sleep(Duration::from_secs(30)).await;
    assert!(!first.is_answered() && !short.is_answered());
    let new = grant(&lockhouse, ask("new", &[("a", 1)])).await;
    assert_eq!(new.unwrap_err().code(), Code::Exhausted);
    assert_eq!(short.answer().await.unwrap_err().code(), Code::Exhausted);
    lockhouse.define("a", 1).await.unwrap();
    first.granted().await;
}

/// P11: waiters are served in the order of arrival, before and after the semaphore was closed.
#[tokio::test(start_paused = true)]
async fn asks_on_a_closed_semaphore_wait_and_are_served_in_order_when_it_opens() {
    let (lockhouse, _) = house(&[("a", 0)]).await;
    let first = Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await;
    let many = Caller::waits(&lockhouse, ask("many", &[("a", 3)]), LONG).await;
    let last = Caller::waits(&lockhouse, ask("last", &[("a", 1)]), LONG).await;
    assert_eq!(lockhouse.status("a").await.unwrap().waiting, 3);
    sleep(Duration::from_secs(3600)).await;
    assert!(!first.is_answered() && !many.is_answered() && !last.is_answered());

    lockhouse.define("a", 3).await.unwrap();
    first.granted().await;
    idle().await;
    assert!(!many.is_answered() && !last.is_answered(), "in their order");
    lockhouse.release("first").await.unwrap();
    many.granted().await;
    idle().await;
    assert!(!last.is_answered());
    lockhouse.release("many").await.unwrap();
    last.granted().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_on_a_closed_semaphore_ends_as_exhausted() {
    let (lockhouse, _) = house(&[("a", 0)]).await;
    let asked = ask("short", &[("a", 1)]);
    let refused = lockhouse.acquire(asked, Duration::from_secs(5)).await;
    assert_eq!(refused.unwrap_err().code(), Code::Exhausted);
    assert_eq!(lockhouse.status("a").await.unwrap().waiting, 0);
}

/// Otherwise an operator who reads the answer would try to open an open semaphore.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_wait_names_what_is_lacking_then() {
    let (lockhouse, _) = house(&[("a", 1), ("b", 0)]).await;
    let both = ask("both", &[("a", 1), ("b", 1)]);
    let both = Caller::waits(&lockhouse, both, Duration::from_secs(5)).await;
    grant(&lockhouse, ask("other", &[("a", 1)])).await.unwrap();
    lockhouse.define("b", 1).await.unwrap();
    let refused = both.answer().await.unwrap_err();
    let lacking = Refusal::Exhausted(vec![name("a")]);
    assert!(
        matches!(&refused, Error::Refused(refusal) if *refusal == lacking),
        "{refused:?}"
    );
}

/// P11: only an operator opens a closed semaphore, and may never do so.
#[tokio::test(start_paused = true)]
async fn a_waiter_on_a_closed_semaphore_holds_up_nobody_on_others() {
    let (lockhouse, _) = house(&[("closed", 0), ("b", 1)]).await;
    let both = ask("both", &[("closed", 1), ("b", 1)]);
    let both = Caller::waits(&lockhouse, both, LONG).await;
    grant(&lockhouse, ask("one", &[("b", 1)])).await.unwrap();
    let two = Caller::waits(&lockhouse, ask("two", &[("b", 1)]), LONG).await;
    lockhouse.release("one").await.unwrap();
    two.granted().await;
    lockhouse.define("closed", 1).await.unwrap();
    idle().await;
    let three = Caller::waits(&lockhouse, ask("three", &[("b", 1)]), LONG).await;
    lockhouse.release("two").await.unwrap();
    both.granted().await;
    assert!(!three.is_answered(), "the first has its place again");
}

/// P11: a waiter that asks for more than the new capacity keeps its place, and delays no other waiter.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_more_than_the_new_capacity_steps_aside_and_keeps_its_place() {
    let (lockhouse, _) = house(&[("a", 3)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let big = Caller::waits(&lockhouse, ask("big", &[("a", 3)]), LONG).await;
    let small = Caller::waits(&lockhouse, ask("small", &[("a", 1)]), LONG).await;
    lockhouse.define("a", 2).await.unwrap();
    small.granted().await;
    let next = Caller::waits(&lockhouse, ask("next", &[("a", 1)]), LONG).await;
    assert_eq!(lockhouse.status("a").await.unwrap().waiting, 2);
    lockhouse.define("a", 3).await.unwrap();
    lockhouse.release("small").await.unwrap();
    idle().await;
    assert!(!next.is_answered(), "the big waiter is back in its place");
    lockhouse.release("held").await.unwrap();
    big.granted().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_refuses_all_waiters() {
    let (lockhouse, _) = house(&[("a", 1), ("b", 1)]).await;
    grant(&lockhouse, ask("held", &[("b", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..5 {
        let asked = ask(&format!("r{i}"), &[("a", 1), ("b", 1)]);
        callers.push(Caller::waits(&lockhouse, asked, LONG).await);
    }
    lockhouse.delete("a").await.unwrap();
    for caller in callers {
        let told = timeout(Duration::from_millis(50), caller.answer()).await;
        let told = told.expect("at once").unwrap_err();
        assert_eq!(told.code(), Code::UnknownSemaphore);
    }
}

/// Another process resizes the semaphore, which makes room.
#[tokio::test(start_paused = true)]
async fn a_resize_elsewhere_is_noticed() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let one = Caller::waits(&lockhouse, ask("one", &[("a", 1)]), LONG).await;
    other.define("a", 2).await.unwrap();
    one.granted().await;

    let two = Caller::waits(&lockhouse, ask("two", &[("a", 2)]), LONG).await;
    other.define("a", 0).await.unwrap();
    for id in ["held", "one"] {
        lockhouse.release(id).await.unwrap();
    }
    sleep(Duration::from_secs(60)).await;
    assert!(!two.is_answered());
    other.define("a", 5).await.unwrap();
    two.granted().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_elsewhere_refuses_all_waiters() {
    let (lockhouse, store) = house(&[("a", 1), ("b", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&lockhouse, ask("held", &[("b", 1)])).await.unwrap();
    let both = Caller::waits(&lockhouse, ask("both", &[("a", 1), ("b", 1)]), LONG).await;
    let one = Caller::waits(&lockhouse, ask("one", &[("b", 1)]), LONG).await;
    other.delete("a").await.unwrap();
    let told = timeout(Duration::from_millis(50), both.answer()).await;
    let told = told.expect("at the next look").unwrap_err();
    assert_eq!(told.code(), Code::UnknownSemaphore);
    lockhouse.release("held").await.unwrap();
    one.granted().await;
}
