//! How long a call tries, by a clock that jumps ahead when nobody has anything to do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockhouse::Code;
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

/// P8: while the store is asked again about one grant that came late, another of its batch may expire.
#[tokio::test]
async fn a_grant_that_expired_while_another_was_asked_for_again_is_told_as_expired() {
    let late = AtomicU32::new(0);
    let lockhouse = hooked(move |batch| {
        let asks = batch.commands.iter().filter(|it| it.ask().is_some());
        // The two together, then the short one; what is asked for after that comes at once.
        let takes = match (asks.count(), late.load(Ordering::Relaxed)) {
            (2, 0) => 60,
            (1, 1) => 400,
            _ => return Ok(Vec::new()),
        };
        late.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(takes));
        Ok(Vec::new())
    });
    let ask = |id: &str, ttl| {
        let ask = lockhouse.request(id).permits("s", 1);
        ask.ttl(Duration::from_millis(ttl)).try_acquire()
    };
    // The two are queued behind the first, and so are one batch.
    let (defined, short, long) =
        tokio::join!(lockhouse.define("s", 2), ask("short", 50), ask("long", 300));
    defined.unwrap();
    for told in [short, long] {
        assert_eq!(told.unwrap_err().code(), Code::RequestEnded);
    }
}
