//! Waiters for semaphores that a template makes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::{Code, Lockhouse};
use tokio::time::sleep;

use crate::house::{Caller, LONG, ask, grant, house};

/// A waiter's own call does not make its key full. Otherwise the waiter asks the store again and again without a pause.
#[tokio::test(start_paused = true)]
async fn a_waiter_with_a_free_key_does_not_ask_while_others_come_first() {
    let (lockhouse, store) = house(&[("all", 2)]).await;
    lockhouse.template("key/*", 1).await.unwrap();
    let other = Lockhouse::with_store(store.beside());
    grant(&other, ask("held", &[("all", 1)])).await.unwrap();
    let _large = Caller::waits(&other, ask("large", &[("all", 2)]), LONG).await;
    // The process of `large` is in the line of all processes by then.
    sleep(Duration::from_millis(400)).await;
    store.slow_us.store(1_000, Ordering::SeqCst);
    let both = ask("both", &[("all", 1), ("key/x", 1)]);
    let _both = Caller::waits(&lockhouse, both, LONG).await;
    sleep(Duration::from_millis(50)).await;
    let before = store.commands.load(Ordering::SeqCst);
    sleep(Duration::from_millis(150)).await;
    let asks = store.commands.load(Ordering::SeqCst) - before;
    assert!(asks <= 5, "{asks} asks in 150 ms");
}

/// Otherwise the first waiter takes the second one's call for a missing key, stands before it again, and gets it refused, without
/// end.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_lacks_a_key_lets_another_have_a_key_that_both_want() {
    let (lockhouse, store) = house(&[("all", 2)]).await;
    lockhouse.template("key/*", 1).await.unwrap();
    for key in ["x", "y"] {
        let held = ask(key, &[(&format!("key/{key}"), 1)]);
        grant(&lockhouse, held).await.unwrap();
    }
    let first = ask("first", &[("all", 1), ("key/x", 1), ("key/y", 1)]);
    let _first = Caller::waits(&lockhouse, first, LONG).await;
    let second = ask("second", &[("all", 1), ("key/x", 1)]);
    let second = Caller::waits(&lockhouse, second, LONG).await;
    sleep(Duration::from_millis(400)).await;
    store.slow_us.store(1_000, Ordering::SeqCst);
    let before = store.commands.load(Ordering::SeqCst);
    lockhouse.release("x").await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let asks = store.commands.load(Ordering::SeqCst) - before;
    assert!(asks <= 20, "{asks} commands in 100 ms");
    second.answer().await.unwrap();
}

/// P12: a semaphore that a template has yet to create has no row that a poll finds.
#[tokio::test(start_paused = true)]
async fn waiters_for_missing_keyed_semaphores_seldom_ask() {
    let (lockhouse, store) = house(&[("all", 1)]).await;
    lockhouse.template("key/*", 1).await.unwrap();
    grant(&lockhouse, ask("held", &[("all", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..50 {
        let both = ask(&format!("r{i}"), &[("all", 1), (&format!("key/{i}"), 1)]);
        callers.push(Caller::waits(&lockhouse, both, LONG).await);
    }
    sleep(Duration::from_secs(5)).await;
    let before = store.commands.load(Ordering::SeqCst);
    sleep(Duration::from_secs(20)).await;
    let asks = store.commands.load(Ordering::SeqCst) - before;
    assert!(asks <= 5, "{asks} asks of 50 waiters in 20 s");
    // The waiters soon find that the template no longer exists.
    lockhouse.delete_template("key/*").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    for caller in callers {
        let told = caller.answer().await.unwrap_err();
        assert_eq!(told.code(), Code::UnknownSemaphore);
    }
}
