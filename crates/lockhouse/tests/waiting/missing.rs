//! A caller can invent any number of names that a template has yet to create, and wait for all of them. These tests
//! bound what such waiters cost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::store::WaitingList;
use lockhouse::{Ask, Code, Lockhouse};
use tokio::time::sleep;

use crate::house::{Caller, LONG, Watched, ask, grant, house, idle, name};

/// The most semaphores of one ask.
const MOST: usize = 64;

/// An ask for a full semaphore, and for as many other names as an ask may have.
fn wide(id: usize) -> Ask {
    let names: Vec<_> = (1..MOST).map(|at| format!("t/{id}-{at}")).collect();
    let own = names.iter().map(|name| (name.as_str(), 1));
    let all: Vec<_> = own.chain([("t/full", 1)]).collect();
    ask(&format!("wide{id}"), &all)
}

/// A client of a store in which the semaphore `t/full` exists and is full.
async fn full_house() -> (Lockhouse, std::sync::Arc<Watched>) {
    let (lockhouse, store) = house(&[]).await;
    lockhouse.template("t/*", 1).await.unwrap();
    grant(&lockhouse, ask("held", &[("t/full", 1)]))
        .await
        .unwrap();
    (lockhouse, store)
}

async fn wide_callers(lockhouse: &Lockhouse, many: usize) -> Vec<Caller> {
    let mut callers = Vec::new();
    for id in 0..many {
        callers.push(Caller::waits(lockhouse, wide(id), LONG).await);
    }
    callers
}

/// The memory of waiters is bounded. Most of it is not the text of names: a semaphore with waiters takes some kilobytes.
#[tokio::test(start_paused = true)]
async fn names_that_only_one_waiter_wants_count_toward_the_memory_of_waiters() {
    let (lockhouse, _) = full_house().await;
    // 8 KiB for each of 100 waiters.
    lockhouse.limit_waiters(100).unwrap();
    let callers = wide_callers(&lockhouse, 20).await;
    let mut let_in = Vec::new();
    for caller in callers {
        match caller.is_answered() {
            true => assert_eq!(caller.answer().await.unwrap_err().code(), Code::Overloaded),
            false => let_in.push(caller),
        }
    }
    let most = 1 + 100 * 8 / (MOST * 4);
    assert!((1..=most).contains(&let_in.len()), "{}", let_in.len());
    drop(let_in);
    idle().await;
    let again = Caller::waits(&lockhouse, wide(0), LONG).await;
    assert!(!again.is_answered(), "the memory is free again");
}

/// A line costs its memory once, however many callers wait in it.
#[tokio::test(start_paused = true)]
async fn waiters_for_the_same_names_share_their_lines() {
    let (lockhouse, _) = full_house().await;
    lockhouse.limit_waiters(100).unwrap();
    let mut callers = Vec::new();
    for id in 0..20 {
        let mut wants = wide(0);
        wants.external_id = ask(&format!("r{id}"), &[("a", 1)]).external_id;
        callers.push(Caller::waits(&lockhouse, wants, LONG).await);
    }
    assert!(!callers.iter().any(Caller::is_answered));
    drop(callers);
    idle().await;
    lockhouse.limit_waiters(1).unwrap();
    let one = Caller::waits(&lockhouse, ask("one", &[("t/full", 1)]), LONG).await;
    assert!(!one.is_answered(), "all their memory is free again");
}

/// Otherwise every row of the list would be written every 5 s.
#[tokio::test(start_paused = true)]
async fn waiters_for_semaphores_that_do_not_exist_are_not_published() {
    let (lockhouse, store) = full_house().await;
    let _callers = wide_callers(&lockhouse, 3).await;
    sleep(Duration::from_secs(20)).await;
    let published = async |on: &str| {
        let shown = store.shown(&name(on)).await.unwrap();
        shown.processes.iter().flat_map(|(_, all)| all).count()
    };
    assert_eq!(published("t/full").await, 3);
    assert_eq!(published("t/1-1").await, 0);
    lockhouse.define("t/1-1", 1).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(published("t/1-1").await, 1, "it exists now");
}

/// P12: a poll's cost is that of the semaphores that exist.
#[tokio::test(start_paused = true)]
async fn a_poll_leaves_out_semaphores_that_do_not_exist() {
    let (lockhouse, store) = full_house().await;
    let callers = wide_callers(&lockhouse, 50).await;
    sleep(Duration::from_secs(5)).await;
    let counts = || {
        let counts = [&store.names_read, &store.commands, &store.batches];
        counts.map(|count| count.load(Ordering::SeqCst))
    };
    let before = counts();
    sleep(Duration::from_secs(60)).await;
    let [read, asks, batches] = std::array::from_fn(|at| counts()[at] - before[at]);
    assert_eq!(
        store.listened.load(Ordering::SeqCst),
        1,
        "lines that each poll visits"
    );
    // `t/full` is read ten times a second, and of the others 5,000 names a second.
    assert!(read <= 60 * (5_500 + 20), "{read} rows read in a minute");
    assert!(
        asks <= 5,
        "{asks} asks in a minute in which nothing changed"
    );
    assert!(
        batches <= 60,
        "{batches} batches in a minute in which nothing changed"
    );
    // The waiters are served as before.
    lockhouse.release("held").await.unwrap();
    let first = callers.into_iter().next().unwrap().granted().await;
    assert_eq!(first.permits.len(), MOST);
}

/// A waiter for a closed template waits for nothing else.
#[tokio::test(start_paused = true)]
async fn waiters_for_missing_semaphores_see_their_template_change() {
    let (lockhouse, store) = house(&[]).await;
    lockhouse.template("key/*", 0).await.unwrap();
    let caller = Caller::waits(&lockhouse, ask("r", &[("key/x", 1)]), LONG).await;
    let large = Caller::waits(&lockhouse, ask("large", &[("key/y", 3)]), LONG).await;
    sleep(Duration::from_secs(10)).await;
    let elsewhere = Lockhouse::with_store(store.beside());
    elsewhere.template("key/*", 2).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    caller.granted().await;
    assert!(!large.is_answered());
    elsewhere.template("key/*", 3).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    large.granted().await;
}
