//! The published list of a process's waiters, and its cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use lockhouse::Timestamp;
use lockhouse::store::WaitingList;
use lockhouse::{Lockhouse, Upkeep};
use lockhouse_core::ProcessId;
use lockhouse_stores::Memory;
use tokio::time::sleep;

use crate::house::{Caller, LONG, Watched, ask, grant, house, name};

/// How many waiters the process shows for `a`.
async fn shown(store: &Watched) -> Vec<usize> {
    let shown = store.shown(&name("a")).await.unwrap();
    let processes = shown.processes.iter();
    processes.map(|(_, waiters)| waiters.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_are_shown_by_one_write_in_five_seconds() {
    let (lockhouse, store) = house(&[("a", 1), ("b", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1), ("b", 1)]))
        .await
        .unwrap();
    let mut callers = Vec::new();
    for i in 0..1000 {
        let wanted = ["a", "b"][i % 2];
        let wants = ask(&format!("r{i:03}"), &[(wanted, 1)]);
        callers.push(Caller::waits(&lockhouse, wants, LONG).await);
    }
    sleep(Duration::from_millis(900)).await;
    assert_eq!(store.shows.load(Ordering::SeqCst), 0);
    sleep(Duration::from_secs(60)).await;
    let shows = store.shows.load(Ordering::SeqCst);
    assert!((11..=13).contains(&shows), "{shows}");
    assert_eq!(shown(&store).await, [200]);
    // This process's own waiters are current.
    let own = lockhouse.waiting("a").await.unwrap();
    assert_eq!((own.len(), own[1].external_id.as_str()), (200, "r002"));
    drop(callers);
    sleep(Duration::from_secs(12)).await;
    assert_eq!(shown(&store).await, [0; 0], "nobody waits any more");
    let before = store.shows.load(Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(store.shows.load(Ordering::SeqCst), before);
}

#[tokio::test(start_paused = true)]
async fn short_waits_are_not_shown() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    for i in 0..20 {
        let held = format!("held{i}");
        grant(&lockhouse, ask(&held, &[("a", 1)])).await.unwrap();
        let waits = Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await;
        sleep(Duration::from_millis(800)).await;
        lockhouse.release(&held).await.unwrap();
        let granted = waits.granted().await;
        lockhouse.release(&granted.external_id).await.unwrap();
    }
    assert_eq!(store.shows.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_show_delays_nobody() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    store.never_shows.store(true, Ordering::SeqCst);
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let waits = Caller::waits(&lockhouse, ask("waits", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(store.shows.load(Ordering::SeqCst), 1, "one at a time");
    let beside = Lockhouse::with_store(store.beside());
    beside.release("held").await.unwrap();
    sleep(Duration::from_millis(200)).await;
    assert!(waits.is_answered());
}

/// The poller ends with the last waiter, also while it cannot delete what it published.
#[tokio::test(start_paused = true)]
async fn the_list_is_deleted_although_the_last_waiter_leaves_during_a_write() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    store.slow_shows_ms.store(500, Ordering::SeqCst);
    let waits = Caller::waits(&lockhouse, ask("waits", &[("a", 1)]), LONG).await;
    while store.shows.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(100)).await;
    drop(waits);
    sleep(Duration::from_secs(3)).await;
    let shown = store.shown(&name("a")).await.unwrap();
    assert!(shown.processes.is_empty(), "{shown:?}");
    let shows = store.shows.load(Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(store.shows.load(Ordering::SeqCst), shows, "it is over");
}

/// A process that dies leaves a list for each semaphore that it had waiters for.
#[tokio::test(start_paused = true)]
async fn a_sweep_deletes_all_lists_that_a_dead_process_left() {
    let passed_s = Arc::new(AtomicI64::new(0));
    let clock = {
        let (began, passed_s) = (Timestamp::now(), Arc::clone(&passed_s));
        move || {
            let passed = SignedDuration::from_secs(passed_s.load(Ordering::SeqCst));
            began.saturating_add(passed).unwrap()
        }
    };
    let store = Arc::new(Memory::with_clock(clock));
    let left = (0..2_000).map(|at| (name(&format!("s{at}")), Vec::new()));
    let left: Vec<_> = left.collect();
    store.show(ProcessId::new(7), &left, &[]).await.unwrap();
    let lockhouse = Lockhouse::with_store(store.clone());
    let lists = async || store.shown(&name("s1999")).await.unwrap().processes.len();
    lockhouse.sweep(&Upkeep::default()).await.unwrap();
    assert_eq!(lists().await, 1, "it may be alive");
    passed_s.store(600, Ordering::SeqCst);
    lockhouse.sweep(&Upkeep::default()).await.unwrap();
    let kept = store.forget_shown(Duration::ZERO, u32::MAX).await.unwrap();
    assert_eq!(kept, 0);
}
