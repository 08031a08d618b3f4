//! P10: dropped permits are released in the background, and `close` waits for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use lockhouse::{EndReason, Lockhouse};
use lockhouse_core::Command;
use lockhouse_core::store::{Error, Kind};
use lockhouse_stores::Memory;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::hooked::hooked;

const MORE_THAN_MAY_WAIT: usize = 60_000;

#[tokio::test]
async fn a_client_that_closes_has_given_back_what_was_dropped() {
    let lockhouse = hooked(|_| Ok(Vec::new()));
    lockhouse.define("s", 100).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    let held = try_join_all((0..50).map(|_| semaphore.acquire()))
        .await
        .unwrap();
    let session = lockhouse
        .session("job", Duration::from_secs(30))
        .await
        .unwrap();
    session.semaphore("s").acquire().await.unwrap().forget();
    let kept = semaphore.acquire().await.unwrap();
    drop(held);
    drop(session);
    assert_eq!(lockhouse.clone().close().await, 0);
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 1);
    assert!(
        kept.release().await.unwrap().now,
        "a held permit stays held"
    );
}

/// An ask with a generated id is dropped at any moment.
#[tokio::test]
async fn a_client_that_closes_has_given_back_what_nobody_waited_for() {
    let lockhouse = hooked(|_| Ok(Vec::new()));
    lockhouse.define("s", 100).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    for patience in 0..50 {
        let patience = Duration::from_micros(4 * patience);
        let permit = timeout(patience, semaphore.acquire()).await;
        drop(permit);
    }
    assert_eq!(lockhouse.clone().close().await, 0);
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_give_back_closes_in_time_and_says_so() {
    let (trouble, lockhouse) = with_trouble();
    lockhouse.define("s", 2).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    let held = [semaphore.acquire().await, semaphore.acquire().await];
    trouble.store(true, SeqCst);
    drop(held);
    let began = Instant::now();
    assert_eq!(lockhouse.close().await, 2);
    assert!(began.elapsed() <= Duration::from_secs(11));
}

/// There is nothing to give back.
#[tokio::test]
async fn a_refused_ask_costs_no_release() {
    let releases = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&releases);
    let lockhouse = hooked(move |batch| {
        let is_end = |command: &&Command| matches!(command, Command::End { .. });
        heard.fetch_add(batch.commands.iter().filter(is_end).count(), SeqCst);
        Ok(Vec::new())
    });
    lockhouse.define("s", 1).await.unwrap();
    let held = lockhouse.semaphore("s").acquire().await.unwrap();
    assert!(lockhouse.semaphore("s").try_acquire().await.is_err());
    assert!(held.release().await.unwrap().now);
    assert_eq!(lockhouse.close().await, 0);
    assert_eq!(releases.load(SeqCst), 1);
}

/// A session could keep the request as long as it lasts, so the release is retried when the store is back.
#[tokio::test(start_paused = true)]
async fn permits_of_a_session_are_released_when_the_store_is_back() {
    let (trouble, lockhouse) = with_trouble();
    lockhouse.define("s", 3).await.unwrap();
    let session = lockhouse.session("job", Duration::from_secs(600)).await;
    let session = session.unwrap();
    let dropped = session.semaphore("s").acquire().await.unwrap();
    let released = session.semaphore("s").acquire().await.unwrap();
    let again = session.request_with_id("again").permits("s", 1);
    let asked_again = again.clone().acquire().await.unwrap();
    trouble.store(true, SeqCst);
    drop((dropped, asked_again));
    assert!(released.release().await.is_err());
    sleep(Duration::from_secs(20)).await;
    assert_eq!(lockhouse.clone().close().await, 3);
    trouble.store(false, SeqCst);
    sleep(Duration::from_secs(20)).await;
    // The request stays for a repeat with its id, here or at another process.
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 1);
    let asked_again = again.acquire().await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert!(asked_again.release().await.unwrap().now);
    assert!(!session.is_lost());
}

/// A client whose store fails while the switch is on.
fn with_trouble() -> (Arc<AtomicBool>, Lockhouse) {
    let trouble = Arc::new(AtomicBool::new(false));
    let lockhouse = hooked({
        let trouble = Arc::clone(&trouble);
        move |_| match trouble.load(SeqCst) {
            true => Err(Error::new(Kind::Unavailable, "the store has trouble")),
            false => Ok(Vec::new()),
        }
    });
    (trouble, lockhouse)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// As documented: the drop releases nothing and does not panic, and the TTL ends the hold.
#[test]
fn a_runtime_that_is_gone_leaves_a_dropped_permit_to_its_ttl() {
    let store = Arc::new(Memory::new());
    let first = runtime();
    let permit = first.block_on(async {
        let lockhouse = Lockhouse::with_store(store.clone());
        lockhouse.define("s", 1).await.unwrap();
        let ask = lockhouse.request_with_id("r").permits("s", 1);
        ask.ttl(Duration::from_secs(1)).acquire().await.unwrap()
    });
    drop(first);
    drop(permit);
    runtime().block_on(async {
        let lockhouse = Lockhouse::with_store(store);
        assert!(lockhouse.find("r").await.unwrap().is_live());
        let next = lockhouse.semaphore("s").acquire().await.unwrap();
        let ended = lockhouse.find("r").await.unwrap();
        assert_eq!(ended.end_reason(), Some(EndReason::Expired));
        next.release().await.unwrap();
    });
}

/// The runtime ends while the queue is full and its first call is at the store.
#[test]
fn a_runtime_that_is_gone_leaves_no_full_queue_behind() {
    let (trouble, lockhouse) = with_trouble();
    let first = runtime();
    first.block_on(async {
        lockhouse.define("s", 10).await.unwrap();
        // The lane ends.
        sleep(Duration::from_millis(10)).await;
    });
    trouble.store(true, SeqCst);
    let semaphore = lockhouse.semaphore("s");
    let mut asks: Vec<_> = (0..MORE_THAN_MAY_WAIT)
        .map(|_| Box::pin(semaphore.acquire()))
        .collect();
    first.block_on(async {
        assert!(asks[0].as_mut().now_or_never().is_none());
        yield_now().await;
        let told = asks[1..].iter_mut().map(|ask| ask.now_or_never());
        let is_overloaded = |told: &_| matches!(told, Some(Err(lockhouse::Error::Overloaded)));
        assert!(told.filter(is_overloaded).count() > 0);
    });
    drop(first);
    drop(asks);
    trouble.store(false, SeqCst);
    runtime().block_on(async {
        let told = semaphore.acquire().await;
        assert!(matches!(told, Err(lockhouse::Error::Overloaded)));
        let next = timeout(Duration::from_secs(10), semaphore.acquire()).await;
        drop(next.unwrap().unwrap());
    });
}

/// The client's runtime releases the permit.
#[tokio::test]
async fn a_permit_that_is_dropped_on_a_thread_without_a_runtime_is_given_back() {
    let lockhouse = hooked(|_| Ok(Vec::new()));
    lockhouse.define("s", 1).await.unwrap();
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    std::thread::spawn(move || drop(permit)).join().unwrap();
    assert_eq!(lockhouse.clone().close().await, 0);
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 0);
}
