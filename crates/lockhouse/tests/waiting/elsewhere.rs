//! Permits that another process releases, and the cost of polling for them.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::store::{Batch, Command, Store as _};
use lockhouse::{Code, Count, Lockhouse, Priority};
use lockhouse_core::{ProcessId, Saved, Seniority, Stand, Standing};
use tokio::time::{Instant, sleep};

use crate::house::{Caller, LONG, Watched, ask, grant, house, house_by_the_clock, name};

/// As in good_job 838: the polling of waiters overloaded the database.
#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_cost_the_store_a_few_looks() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..1000 {
        callers.push(Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await);
    }
    sleep(Duration::from_secs(20)).await;
    let before = store.asked();
    sleep(Duration::from_secs(60)).await;
    let looks = store.asked() - before;
    assert!(looks <= 60 * 14, "{looks} in a minute");
    assert!(looks >= 60, "the poller must look: {looks}");
    drop(callers);
    sleep(Duration::from_secs(5)).await;
    let before = store.asked();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(store.asked(), before, "nobody waits, nobody looks");
}

/// One query asks for all semaphores that have waiters.
#[tokio::test(start_paused = true)]
async fn many_semaphores_are_looked_at_together() {
    let (lockhouse, store) = house(&[]).await;
    let mut callers = Vec::new();
    for i in 0..100 {
        let name = format!("s{i}");
        lockhouse.define(&name, 1).await.unwrap();
        grant(&lockhouse, ask(&format!("held{i}"), &[(&name, 1)]))
            .await
            .unwrap();
        callers.push(Caller::waits(&lockhouse, ask(&format!("r{i}"), &[(&name, 1)]), LONG).await);
        sleep(Duration::from_millis(37)).await;
    }
    sleep(Duration::from_secs(30)).await;
    let before = store.asked();
    sleep(Duration::from_secs(60)).await;
    let looks = store.asked() - before;
    assert!(looks <= 60 * 25, "{looks} in a minute");
}

/// P12: an ask without a wait costs one batch, however many callers wait.
#[tokio::test(start_paused = true)]
async fn a_refused_try_costs_the_same_however_many_wait() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..500 {
        callers.push(Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await);
    }
    let commands = store.commands.load(Ordering::SeqCst);
    for i in 0..100 {
        let tried = grant(&lockhouse, ask(&format!("t{i}"), &[("a", 1)])).await;
        assert_eq!(tried.unwrap_err().code(), Code::Exhausted);
    }
    assert_eq!(store.commands.load(Ordering::SeqCst) - commands, 100);
}

/// As in redisson 6664 and 5762 and prefect 23183: a waiter slept on though permits were free.
#[tokio::test(start_paused = true)]
async fn waiters_wake_when_permits_are_released_elsewhere() {
    let (lockhouse, store) = house(&[("a", 3)]).await;
    let other = Lockhouse::with_store(store.beside());
    for held_ms in [5, 50, 500, 5_000, 50_000] {
        grant(&other, ask(&format!("held{held_ms}"), &[("a", 3)]))
            .await
            .unwrap();
        let mut callers = Vec::new();
        for i in 0..3 {
            let asked = ask(&format!("r{held_ms}-{i}"), &[("a", 1)]);
            callers.push(Caller::waits(&lockhouse, asked, LONG).await);
        }
        sleep(Duration::from_millis(held_ms)).await;
        other.release(format!("held{held_ms}")).await.unwrap();
        let begun = Instant::now();
        for caller in callers {
            let id = caller.granted().await.external_id;
            lockhouse.release(id).await.unwrap();
        }
        let most = Duration::from_millis(held_ms / 14)
            .clamp(Duration::from_millis(25), Duration::from_millis(1200));
        let took = begun.elapsed();
        assert!(took <= most, "held {held_ms} ms, took {took:?}");
    }
}

/// A notification only makes the poll come sooner.
#[tokio::test(start_paused = true)]
async fn a_notified_process_polls_at_once() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&other, ask("held", &[("a", 1)])).await.unwrap();
    let waits = Caller::waits(&lockhouse, ask("next", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(100)).await;
    other.release("held").await.unwrap();
    store.notification.notify_one();
    let begun = Instant::now();
    waits.granted().await;
    assert!(
        begun.elapsed() < Duration::from_millis(5),
        "{:?}",
        begun.elapsed()
    );
}

/// P10: a process far behind seldom looks for lapsed holds, until the processes ahead have left or died.
#[tokio::test(start_paused = true)]
async fn a_process_looks_for_lapsed_holds_soon_after_the_processes_ahead_have_left() {
    let (lockhouse, store) = house_by_the_clock(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    stand(&store, 1..=100, Some(Duration::from_secs(60))).await;
    let _waits = Caller::waits(&lockhouse, ask("last", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(2)).await;
    let before = store.looks_for_lapsed.load(Ordering::SeqCst);
    sleep(Duration::from_secs(20)).await;
    let looks = store.looks_for_lapsed.load(Ordering::SeqCst) - before;
    assert_eq!(looks, 0, "a hundred processes are ahead");
    stand(&store, 1..=97, None).await;
    // The process knows it after its next poll, at most 14 s later, and then looks within 2 s.
    sleep(Duration::from_secs(16)).await;
    let before = store.looks_for_lapsed.load(Ordering::SeqCst);
    sleep(Duration::from_secs(10)).await;
    let looks = store.looks_for_lapsed.load(Ordering::SeqCst) - before;
    assert!((6..=10).contains(&looks), "{looks} in 10 s");
}

/// Writes the entries of `processes`, each with a waiter that has waited for so long, or deletes them.
async fn stand(store: &Watched, processes: RangeInclusive<u64>, waited: Option<Duration>) {
    let stands = processes.map(|process| Command::Stand {
        name: name("a"),
        stand: Stand {
            process: ProcessId::new(process),
            standing: waited.map(|waited| Standing {
                seniority: Seniority::new(waited, Priority::default()),
                count: Count::ONE,
                waiting: 1,
            }),
            saved: Saved::Always,
        },
    });
    let batch = Batch::new(stands.collect());
    for outcome in store.transact(&batch).await.unwrap() {
        outcome.unwrap();
    }
}
