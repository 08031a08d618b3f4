use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::Timestamp;
use lockhouse_core::store::{Kind, Listing as _};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_the_lock_ends_and_reads_do_not_wait() {
    let (place, mut store) = Place::migrated().await;
    assert!(store.connections.lock_wait < Duration::from_secs(5));
    run(&store, define("a", 1)).await.unwrap().unwrap();
    store.connections.lock_wait = Duration::from_millis(150);
    let store = Arc::new(store);
    let other = place.connect();
    other
        .execute_batch("BEGIN IMMEDIATE; UPDATE lockhouse_semaphore SET capacity = 2")
        .unwrap();

    let begun = Instant::now();
    let mut waiting = JoinSet::new();
    for i in 0..8 {
        let store = Arc::clone(&store);
        waiting.spawn(async move { run(&store, acquire(&format!("r-{i}"), "a")).await });
    }
    let seen = store.semaphore(&name("a")).await.unwrap().unwrap();
    assert_eq!(
        seen.capacity.value(),
        1,
        "what is not committed is not seen"
    );
    while let Some(ended) = waiting.join_next().await {
        let error = ended.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.is_transient() && !error.maybe_applied());
    }
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "they wait side by side"
    );

    other.execute_batch("ROLLBACK").unwrap();
    granted(run(&store, acquire("r-0", "a")).await);
}

/// P8
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_is_read_after_the_wait_for_the_lock() {
    let (place, store) = Place::migrated().await;
    run(&store, define("a", 1)).await.unwrap().unwrap();
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn(async move { run(&store, acquire("r", "a")).await });
    sleep(Duration::from_millis(100)).await; // so that it waits; right either way
    let released = Timestamp::now();
    other.execute_batch("ROLLBACK").unwrap();
    let request = granted(waiting.await.unwrap());
    assert!(request.created_at.as_microsecond() >= released.as_microsecond());
}

/// P1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_on_one_file_grant_no_more_than_there_is() {
    let (place, _) = Place::migrated().await;
    assert_eq!(grants_of_three(&place).await, 3);
}

/// How many of 40 requests, through two stores at once, hold one of 3 permits.
async fn grants_of_three(place: &Place) -> usize {
    run(&place.store(), define("a", 3)).await.unwrap().unwrap();
    let url = format!("sqlite:{}", place.file.display());
    let stores = [0, 1].map(|_| Arc::new(Sqlite::open(&url).unwrap()));
    let mut all = JoinSet::new();
    for i in 0..40 {
        let store = Arc::clone(&stores[i % 2]);
        all.spawn(async move { run(&store, acquire(&format!("r-{i}"), "a")).await });
    }
    let outcomes = all.join_all().await;
    outcomes
        .into_iter()
        .filter(|outcome| outcome.as_ref().unwrap().is_ok())
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_waits_for_leaves_the_store_usable() {
    let (place, store) = Place::migrated().await;
    run(&store, define("a", 100)).await.unwrap().unwrap();
    for i in 0..50 {
        let gone = acquire(&format!("gone-{i}"), "a");
        let call = run(&store, gone);
        let _ = tokio::time::timeout(Duration::from_micros(i * 10), call).await;
    }
    granted(run(&store, acquire("there", "a")).await);
    let in_use = store.semaphore(&name("a")).await.unwrap().unwrap().in_use;
    let holders = place
        .store()
        .holders(&Holders::on(name("a")), &first(100))
        .await
        .unwrap();
    assert_eq!(
        in_use as usize,
        holders.requests.len(),
        "each took effect in full or not at all (P2)"
    );
}

#[tokio::test]
async fn a_batch_that_changes_nothing_writes_nothing() {
    let (place, store) = Place::migrated().await;
    run(&store, define("a", 1)).await.unwrap().unwrap();
    granted(run(&store, acquire("r", "a")).await);
    let other = place.connect();
    let version = || -> u32 {
        other
            .query_row("PRAGMA data_version", (), |row| row.get(0))
            .unwrap()
    };
    let before = version();
    run(&store, acquire("another", "a"))
        .await
        .unwrap()
        .unwrap_err();
    granted(run(&store, acquire("r", "a")).await);
    run(&store, define("a", 1)).await.unwrap().unwrap();
    assert_eq!(version(), before);
    run(&store, define("a", 2)).await.unwrap().unwrap();
    assert_ne!(version(), before);
}
