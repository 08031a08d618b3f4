//! Waiting for room.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::Refusal;

use super::{SOON, ask, eventually, grant, in_use, name, refusal};
use crate::place::Place;

/// Through the same client, and through another.
pub async fn who_waits_is_granted_when_permits_come_back(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "first", &[("s", 1)]).await.unwrap();
    for (releaser, last, next) in [(&one, "first", "second"), (&two, "second", "third")] {
        let waiting = tokio::spawn({
            let one = one.clone();
            async move { one.acquire(ask(next, &[("s", 1)]), SOON).await }
        });
        eventually("it waits", async || {
            one.status("s").await.unwrap().waiting == 1
        })
        .await;
        releaser.release(last).await.unwrap();
        let (request, now) = waiting.await.unwrap().unwrap();
        assert!(now);
        assert_eq!(request.external_id.as_str(), next);
    }
    assert_eq!(in_use(&one, "s").await, 1);
}

/// A resize makes room too.
pub async fn who_waits_is_granted_when_the_capacity_grows(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.acquire(ask("b", &[("s", 1)]), SOON).await }
    });
    eventually("it waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 1
    })
    .await;
    lockhouse.define("s", 2).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 2);
}

/// P5, P10: the same id may try again.
pub async fn a_wait_ends_in_time_and_holds_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let began = Instant::now();
    let waited = lockhouse
        .acquire(ask("b", &[("s", 1)]), Duration::from_millis(300))
        .await;
    assert_eq!(refusal(waited), Refusal::Exhausted(vec![name("s")]));
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < SOON / 2,
        "{took:?}"
    );
    lockhouse.release("a").await.unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 0);
    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
}

/// On each semaphore that it waits for.
pub async fn who_waits_is_counted(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    lockhouse.define("t", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    assert_eq!(lockhouse.status("s").await.unwrap().waiting, 0);
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move {
            lockhouse
                .acquire(ask("b", &[("s", 1), ("t", 1)]), SOON)
                .await
        }
    });
    eventually("it is counted", async || {
        let on_s = lockhouse.status("s").await.unwrap().waiting;
        on_s == 1 && lockhouse.status("t").await.unwrap().waiting == 1
    })
    .await;
    lockhouse.release("a").await.unwrap();
    waiting.await.unwrap().unwrap();
    let listed = lockhouse.semaphores(None, 10).await.unwrap();
    assert!(
        listed.iter().all(|status| status.waiting == 0),
        "{listed:?}"
    );
}

/// P10: a request that its caller gave up on is not granted, or ends by itself.
pub async fn giving_up_a_wait_leaves_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.semaphore("s").acquire().await }
    });
    eventually("it waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 1
    })
    .await;
    waiting.abort();
    eventually("it no longer waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 0
    })
    .await;
    lockhouse.release("a").await.unwrap();
    eventually("nothing is held", async || {
        in_use(&lockhouse, "s").await == 0
    })
    .await;
    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
}

/// However many wait, each release serves the next, and nobody is told that the store is down.
pub async fn a_crowd_that_waits_is_served(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let crowd = (0..300).map(|_| async {
        let permit = lockhouse.semaphore("s").acquire().await.unwrap();
        permit.release().await.unwrap();
    });
    let served = tokio::time::timeout(2 * SOON, join_all(crowd));
    served.await.expect("all are served");
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}
