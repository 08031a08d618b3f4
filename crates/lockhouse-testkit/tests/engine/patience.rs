//! How long a call tries, by a clock that jumps ahead when nobody has anything to do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use tokio::time::Instant;

use crate::hooked::hooked;

/// Defines a semaphore on a store that has `trouble` for so long; whether it was done, and after
/// how long.
async fn tried(trouble: Kind, lasts: Duration) -> (bool, Duration) {
    let began = Instant::now();
    let lockhouse = hooked(move |_| match began.elapsed() < lasts {
        true => Err(Error::new(trouble, "the store has trouble")),
        false => Ok(Vec::new()),
    });
    let done = lockhouse.define("s", 1).await;
    (done.is_ok(), began.elapsed())
}

/// Connections come free one by one, and whoever waits for one harms nobody.
#[tokio::test(start_paused = true)]
async fn a_crowded_store_is_tried_for_as_long_as_a_call_may_take() {
    let (done, after) = tried(Kind::Crowded, Duration::from_secs(7)).await;
    assert!(done && after < Duration::from_secs(9), "{after:?}");
    let (done, after) = tried(Kind::Crowded, Duration::MAX).await;
    assert!(!done && after < Duration::from_secs(10), "{after:?}");
    assert!(after > Duration::from_secs(8), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_out_is_tried_for_a_moment() {
    for trouble in [Kind::Unavailable, Kind::Conflict, Kind::Unknown] {
        let (done, after) = tried(trouble, Duration::MAX).await;
        assert!(!done && after < Duration::from_secs(3), "{after:?}");
    }
}

/// P9: what the store has granted is not told to have expired before it has, however long it took
/// to be granted. The decision comes after 210 ms at least, and from there on it lasts for 200.
#[tokio::test]
async fn a_grant_that_took_longer_than_it_lasts_is_what_the_store_says() {
    let troubles = AtomicU32::new(0);
    let lockhouse = hooked(move |batch| {
        let asks = batch.commands.iter().any(|command| command.ask().is_some());
        match asks && troubles.fetch_add(1, Ordering::Relaxed) < 3 {
            true => Err(Error::new(Kind::Conflict, "somebody was in the way")),
            false => Ok(Vec::new()),
        }
    });
    lockhouse.define("s", 1).await.unwrap();
    let ask = lockhouse.request("late").permits("s", 1);
    let permit = ask.ttl(Duration::from_millis(200)).try_acquire().await;
    let permit = permit.expect("it is held, as its time began with the decision");
    assert!(lockhouse.find("late").await.unwrap().is_live());
    permit.forget();
}
