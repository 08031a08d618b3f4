//! Callers share transactions, and no caller notices that in its answers.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lockhouse::{Code, EndReason, Lost};

use super::steps::{SOON, ask, eventually, grant, in_use, name, refusal};
use crate::place::Place;

/// Good and bad calls run at once on the same semaphores, so that they share batches.
pub async fn an_error_of_one_caller_affects_no_other(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1000).await.unwrap();
    lockhouse.define("small", 1).await.unwrap();
    grant(&lockhouse, "ended", &[("s", 1)]).await.unwrap();
    lockhouse.release("ended").await.unwrap();
    grant(&lockhouse, "full", &[("small", 1)]).await.unwrap();

    let calls = (0..50).map(|i| {
        let lockhouse = &lockhouse;
        async move {
            let good = format!("good{i}");
            let (good, bad) = join(grant(lockhouse, &good, &[("s", 1)]), async {
                match i % 5 {
                    0 => grant(lockhouse, "ended", &[("s", 1)]).await.map(drop),
                    1 => grant(lockhouse, "full", &[("s", 7)]).await.map(drop),
                    2 => grant(lockhouse, "x", &[("s", 1), ("nowhere", 1)])
                        .await
                        .map(drop),
                    3 => grant(lockhouse, "x", &[("s", 1), ("small", 1)])
                        .await
                        .map(drop),
                    _ => lockhouse.release("nobody").await.map(drop),
                }
            })
            .await;
            good.unwrap();
            refusal(bad).code()
        }
    });
    let codes = join_all(calls).await;
    let expected = [
        Code::RequestEnded,
        Code::IdempotencyConflict,
        Code::UnknownSemaphore,
        Code::Exhausted,
        Code::UnknownRequest,
    ];
    assert!(
        codes.iter().eq(expected.iter().cycle().take(50)),
        "{codes:?}"
    );
    assert_eq!(in_use(&lockhouse, "s").await, 50);
}

/// P9, P10: calls are dropped at any moment. Their grants can be found by their ids, and the other callers get answers.
pub async fn a_caller_that_goes_away_breaks_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 500).await.unwrap();
    let calls = (0..100).map(|i| {
        let lockhouse = lockhouse.clone();
        async move {
            let id = format!("r{i}");
            let patience = Duration::from_micros(i * 40);
            let _ = tokio::time::timeout(patience, grant(&lockhouse, &id, &[("s", 1)])).await;
            // A repeat gets the grant, whatever became of the first call.
            grant(&lockhouse, &id, &[("s", 1)]).await.unwrap();
        }
    });
    tokio::time::timeout(SOON, join_all(calls))
        .await
        .expect("all are answered");
    assert_eq!(in_use(&lockhouse, "s").await, 100);
    join_all((0..100).map(|i| lockhouse.release(format!("r{i}")))).await;
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

/// There are more calls than a batch takes, and more semaphores than lanes.
pub async fn a_thousand_calls_at_once_are_all_answered(place: &Place) {
    let lockhouse = place.client().await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        lockhouse.define(name, 1000).await.unwrap();
    }
    let lockhouse = &lockhouse;
    let pairs = (0..1000).map(|i| async move {
        let (id, on) = (format!("r{i}"), names[i % names.len()]);
        grant(lockhouse, &id, &[(on, 1)]).await.unwrap();
        assert!(lockhouse.release(&id).await.unwrap().now);
    });
    tokio::time::timeout(SOON, join_all(pairs))
        .await
        .expect("all are answered");
    for name in names {
        let semaphore = lockhouse.status(name).await.unwrap().semaphore;
        assert_eq!((semaphore.in_use, semaphore.fence), (0, 250));
    }
}

/// P10.
pub async fn a_dropped_permit_is_given_back(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    assert_eq!(
        lockhouse.semaphore("s").available_permits().await.unwrap(),
        0
    );
    let refused = refusal(lockhouse.semaphore("s").try_acquire().await);
    assert_eq!(refused.code(), Code::Exhausted);
    let id = permit.external_id().clone();
    drop(permit);
    eventually("the permit is back", async || {
        in_use(&lockhouse, "s").await == 0
    })
    .await;
    assert_eq!(
        lockhouse.find(id).await.unwrap().end_reason(),
        Some(EndReason::Released)
    );

    let kept = lockhouse.semaphore("s").acquire().await.unwrap().forget();
    assert_eq!(in_use(&lockhouse, "s").await, 1);
    assert!(lockhouse.release(kept).await.unwrap().now);
}

/// This holds within one process, as with tokio's semaphore.
pub async fn a_dropped_permit_comes_before_a_later_try_acquire(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    lockhouse.define("t", 1).await.unwrap();
    for _ in 0..20 {
        let ask = lockhouse.request().permits("s", 1).permits("t", 1);
        drop(ask.try_acquire().await.unwrap());
        let semaphore = lockhouse.clone().semaphore("t");
        drop(semaphore.try_acquire().await.unwrap());
        assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    }
}

/// The same holds for a release that has begun, also if its caller drops the call.
pub async fn a_release_under_way_comes_before_a_later_try_acquire(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    for i in 0..20 {
        let permit = semaphore.try_acquire().await.unwrap();
        let mut release = Box::pin(permit.release());
        // It begins when it is first polled.
        let begun = poll_fn(|context| Poll::Ready(release.as_mut().poll(context))).await;
        if i % 2 == 0 {
            drop(release);
            drop(semaphore.try_acquire().await.unwrap());
        } else if begun.is_pending() {
            let (permit, released) = join(semaphore.try_acquire(), release).await;
            assert!(released.unwrap().now);
            drop(permit.unwrap());
        }
    }
}

/// P10: a caller that begins a release and drops the call still releases.
pub async fn a_release_that_is_given_up_on_releases(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 20).await.unwrap();
    for patience in 0..20 {
        let permit = lockhouse
            .request_with_id(format!("r{patience}"))
            .permits("s", 1);
        let permit = permit.without_ttl().acquire().await.unwrap();
        let patience = Duration::from_micros(patience * 50);
        let _ = tokio::time::timeout(patience, permit.release()).await;
    }
    eventually("all are back", async || in_use(&lockhouse, "s").await == 0).await;
}

/// P10: a permit is held as long as its holder lives, and no longer.
pub async fn a_held_permit_renews_itself(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let short = lockhouse
        .request_with_id("a")
        .permits("s", 1)
        .ttl(Duration::from_secs(4));
    let permit = short.acquire().await.unwrap();
    let first = permit.request().expires_at.unwrap();
    eventually("it is renewed twice", async || {
        let pushed = lockhouse.find("a").await.unwrap().expires_at.unwrap();
        pushed.duration_since(first).as_millis() > 2000
    })
    .await;
    assert!(!permit.is_lost());
    assert_eq!(permit.fence("s"), 1);
    assert!(permit.release().await.unwrap().now);
}

/// P4: the holder learns that its permit was ended.
pub async fn a_permit_ended_by_another_is_lost(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    let short = one
        .request_with_id("a")
        .permits("s", 1)
        .ttl(Duration::from_secs(3));
    let permit = short.acquire().await.unwrap();
    assert!(two.release("a").await.unwrap().now);
    let lost = tokio::time::timeout(SOON, permit.lost())
        .await
        .expect("it is noticed");
    assert_eq!(lost, Lost::Ended(EndReason::Released));
    assert!(!permit.release().await.unwrap().now);
    assert!(
        two.holders(Some(&name("s")), None, 10)
            .await
            .unwrap()
            .requests
            .is_empty()
    );
    two.acquire(ask("b", &[("s", 1)]), Duration::ZERO)
        .await
        .unwrap();
}
