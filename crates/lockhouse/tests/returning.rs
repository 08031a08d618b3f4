//! A release under way takes effect before a later `try_acquire`, on a runtime with several threads.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use lockhouse::{Lockhouse, blocking};

const ROUNDS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_drop_on_another_thread_comes_before_a_later_try_acquire() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    lockhouse.define("s", 1).await.unwrap();
    for _ in 0..ROUNDS {
        let semaphore = lockhouse.semaphore("s");
        let permit = semaphore.try_acquire().await.unwrap();
        tokio::spawn(async move { drop(permit) }).await.unwrap();
        drop(semaphore.try_acquire().await.unwrap());
    }
    assert_eq!(lockhouse.close().await, 0);
}

#[test]
fn a_blocking_drop_comes_before_a_later_try_acquire() {
    let lockhouse = blocking::Lockhouse::connect("memory:").unwrap();
    lockhouse.define("s", 1).unwrap();
    let semaphore = lockhouse.semaphore("s");
    for _ in 0..ROUNDS {
        drop(semaphore.try_acquire().unwrap());
        assert_eq!(semaphore.available_permits().unwrap(), 1);
    }
}
