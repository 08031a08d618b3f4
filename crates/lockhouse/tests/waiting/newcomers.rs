//! Waiters that ask again at another process, and the cost of looking for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::store::{ShownWaiter, WaitingList as _};
use lockhouse::{Ask, Lockhouse, Owner, Priority};
use lockhouse_core::ProcessId;
use tokio::time::sleep;

use crate::house::{Caller, LONG, Watched, ask, grant, house, house_by_the_clock};

/// Longer than the time after which the lists are read.
const A_WHILE: Duration = Duration::from_millis(700);

/// Publishes `wanted` for `a` like a process that has died since, at which it had waited for `waited`.
async fn was_listed(store: &Watched, wanted: &Ask, waited: Duration) {
    let permits = wanted.permits();
    let lists: Vec<_> = permits
        .map(|(name, count)| {
            let waiter = ShownWaiter {
                external_id: wanted.external_id.clone(),
                owner: wanted.owner.clone(),
                count,
                priority: Priority::default(),
                waited,
                lacks: Vec::new(),
            };
            (name.clone(), vec![waiter])
        })
        .collect();
    store.show(ProcessId::new(7), &lists, &[]).await.unwrap();
}

/// A client of a store in which `a` is held, with a waiter that came a minute ago.
async fn with_a_waiter() -> (Lockhouse, Arc<Watched>, Caller) {
    let (lockhouse, store) = house_by_the_clock(&[("a", 1), ("b", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let waiter = Caller::waits(&lockhouse, ask("waiter", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(60)).await;
    (lockhouse, store, waiter)
}

/// Whether `wanted` is granted before the waiter that came a minute ago.
async fn comes_first(lockhouse: &Lockhouse, wanted: Ask, waiter: &Caller) -> bool {
    let returned = Caller::waits(lockhouse, wanted, LONG).await;
    sleep(A_WHILE).await;
    lockhouse.release("held").await.unwrap();
    sleep(A_WHILE).await;
    assert_ne!(returned.is_answered(), waiter.is_answered());
    returned.is_answered()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_process_that_died_keeps_its_place() {
    let (lockhouse, store, waiter) = with_a_waiter().await;
    let wanted = ask("returned", &[("a", 1)]);
    was_listed(&store, &wanted, Duration::from_secs(65)).await;
    sleep(Duration::from_secs(5)).await;
    assert!(comes_first(&lockhouse, wanted, &waiter).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_came_later_at_another_process_stands_behind() {
    let (lockhouse, store, waiter) = with_a_waiter().await;
    let wanted = ask("returned", &[("a", 1)]);
    was_listed(&store, &wanted, Duration::from_secs(55)).await;
    assert!(!comes_first(&lockhouse, wanted, &waiter).await);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_old_gives_no_place() {
    let (lockhouse, store, waiter) = with_a_waiter().await;
    let wanted = ask("returned", &[("a", 1)]);
    was_listed(&store, &wanted, Duration::from_secs(65)).await;
    sleep(Duration::from_secs(16)).await;
    assert!(!comes_first(&lockhouse, wanted, &waiter).await);
}

/// An id alone is no claim to a place: the owner, and the count on each semaphore, must be the same.
#[tokio::test(start_paused = true)]
async fn another_ask_under_the_id_of_a_waiter_gets_a_new_place() {
    let wanted = ask("returned", &[("a", 1)]);
    let mut of_another = wanted.clone();
    of_another.owner = Some(Owner::parse("another").unwrap());
    let of_more = ask("returned", &[("a", 1), ("b", 1)]);
    for (listed, asked) in [
        (&wanted, &of_another),
        (&wanted, &of_more),
        (&of_another, &wanted),
    ] {
        let (lockhouse, store, waiter) = with_a_waiter().await;
        was_listed(&store, listed, Duration::from_secs(65)).await;
        assert!(
            !comes_first(&lockhouse, asked.clone(), &waiter).await,
            "{asked:?}"
        );
    }
    let (lockhouse, store, waiter) = with_a_waiter().await;
    was_listed(&store, &of_more, Duration::from_secs(65)).await;
    assert!(comes_first(&lockhouse, of_more, &waiter).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_process_stops_keeps_its_place_and_leaves_from_it() {
    let (one, store) = house_by_the_clock(&[("a", 1)]).await;
    grant(&one, ask("held", &[("a", 1)])).await.unwrap();
    let two = Lockhouse::with_store(store.beside());
    let first = Caller::waits(&one, ask("first", &[("a", 1)]), LONG).await;
    sleep(Duration::from_millis(800)).await;
    let second = Caller::waits(&two, ask("second", &[("a", 1)]), LONG).await;
    sleep(Duration::from_millis(800)).await;
    one.hand_over_waiters().await;
    drop(first);
    one.close().await;
    sleep(Duration::from_secs(3)).await;
    // The call that moved to its old place can be dropped, and the next one has the place too.
    for _ in 0..3 {
        let again = Caller::waits(&two, ask("first", &[("a", 1)]), LONG).await;
        sleep(A_WHILE).await;
        drop(again);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(two.status("a").await.unwrap().waiting, 1);
    }
    let again = Caller::waits(&two, ask("first", &[("a", 1)]), LONG).await;
    sleep(A_WHILE).await;
    two.release("held").await.unwrap();
    again.granted().await;
    assert!(!second.is_answered());
    two.release("first").await.unwrap();
    second.granted().await;
}

#[tokio::test(start_paused = true)]
async fn short_waits_read_no_lists() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    for i in 0..20 {
        let held = format!("held{i}");
        grant(&lockhouse, ask(&held, &[("a", 1)])).await.unwrap();
        let waits = Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await;
        sleep(Duration::from_millis(240)).await;
        lockhouse.release(&held).await.unwrap();
        let granted = waits.granted().await;
        lockhouse.release(&granted.external_id).await.unwrap();
    }
    assert_eq!(store.lists_read.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_new_waiters_are_looked_for_by_few_reads() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let mut callers = Vec::new();
    for i in 0..1000 {
        callers.push(Caller::waits(&lockhouse, ask(&format!("r{i}"), &[("a", 1)]), LONG).await);
        sleep(Duration::from_millis(10)).await;
    }
    let reads = store.lists_read.load(Ordering::SeqCst);
    assert!((15..=21).contains(&reads), "{reads} in 10 s");
    sleep(Duration::from_secs(60)).await;
    let reads = store.lists_read.load(Ordering::SeqCst);
    assert!(reads <= 22, "{reads}: no waiter is looked for twice");
}
