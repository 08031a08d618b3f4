//! Semaphores that shrink, close or go while they are waited for.

use std::time::Duration;

use lockhouse::{Code, Lockhouse};
use tokio::time::{sleep, timeout};

use crate::house::{Caller, LONG, ask, grant, house, idle};

/// Those who can't have what they ask for now may yet; those who come now are told at once.
#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_waiting_when_the_semaphore_is_closed() {
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
    let new = lockhouse.acquire(ask("new", &[("a", 1)]), LONG).await;
    assert_eq!(new.unwrap_err().code(), Code::ExceedsCapacity);
    assert_eq!(short.answer().await.unwrap_err().code(), Code::Exhausted);
    lockhouse.define("a", 1).await.unwrap();
    first.granted().await;
}

/// P11: one who asks for more than there is now keeps its place, and nobody else waiting.
#[tokio::test(start_paused = true)]
async fn who_asks_for_more_than_is_left_steps_aside_and_keeps_its_place() {
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
    assert!(!next.is_answered(), "the big one is back in its place");
    lockhouse.release("held").await.unwrap();
    big.granted().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_is_told_to_all_who_wait() {
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

/// Room made by a resize through another process.
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
async fn a_deletion_elsewhere_is_told_to_all_who_wait() {
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
