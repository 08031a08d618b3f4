use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::Timestamp;
use lockhouse_core::store::Kind;
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
        "a change is not seen before its commit"
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
