//! P3 and P4: a request ends once, and its end is final.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{EndReason, Lockhouse, Refusal};

use super::steps::{ask, eventually, grant, in_use, refusal, with_ttl};
use crate::place::Place;

/// P3.
pub async fn a_request_ends_once(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();

    let first = lockhouse.release("a").await.unwrap();
    assert!(first.now);
    assert_eq!(first.request.end_reason(), Some(EndReason::Released));
    assert!(first.request.released_at().is_some());
    let second = lockhouse.release("a").await.unwrap();
    assert!(!second.now);
    assert_eq!(second.request, first.request);
    assert_eq!(
        in_use(&lockhouse, "s").await,
        1,
        "the other's permit was not given back too"
    );
}

/// P3.
pub async fn concurrent_releases_end_it_once(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 5).await.unwrap();
    grant(&one, "keep", &[("s", 1)]).await.unwrap();
    grant(&one, "a", &[("s", 3)]).await.unwrap();
    let releases = (0..20).map(|i| {
        if i % 2 == 0 {
            one.release("a")
        } else {
            two.release("a")
        }
    });
    let ended = join_all(releases)
        .await
        .into_iter()
        .filter(|r| r.as_ref().unwrap().now)
        .count();
    assert_eq!(ended, 1);
    assert_eq!(in_use(&one, "s").await, 1);
}

/// The TTL is kept, and the expiry is the store's clock plus it.
pub async fn the_ttl_is_recorded(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let timed = with_ttl(ask("a", &[("s", 1)]), Duration::from_millis(61_234));
    let (request, _) = lockhouse.acquire(timed, Duration::ZERO).await.unwrap();
    assert_eq!(request.ttl.unwrap().as_ms(), 61_234);
    let lasts = request
        .expires_at
        .unwrap()
        .duration_since(request.created_at);
    assert_eq!(lasts.as_millis(), 61_234);
    assert_eq!(lockhouse.find("a").await.unwrap(), request);

    let untimed = grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
    assert_eq!((untimed.ttl, untimed.expires_at), (None, None));
}

/// P8: the new TTL counts from the store's clock now, not from the old expiry.
pub async fn renewing_sets_the_expiry_to_now_and_the_ttl(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let timed = with_ttl(ask("a", &[("s", 1)]), Duration::from_secs(600));
    let (before, _) = lockhouse.acquire(timed, Duration::ZERO).await.unwrap();
    let after = lockhouse
        .renew("a", Some(Duration::from_secs(60)))
        .await
        .unwrap();
    assert_eq!(after.ttl.unwrap().as_ms(), 60_000);
    assert!(
        after.expires_at < before.expires_at,
        "a shorter TTL counts from now"
    );
    assert_eq!(lockhouse.find("a").await.unwrap(), after);
    assert_eq!(after.permits, before.permits);
}

/// Renewing needs no new TTL if there was one.
pub async fn renewing_without_a_ttl_takes_the_last_one(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let timed = with_ttl(ask("a", &[("s", 1)]), Duration::from_secs(60));
    let (before, _) = lockhouse.acquire(timed, Duration::ZERO).await.unwrap();
    let after = lockhouse.renew("a", None).await.unwrap();
    assert_eq!(after.ttl, before.ttl);
    assert!(after.expires_at >= before.expires_at);

    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
    let untimed = refusal(lockhouse.renew("b", None).await);
    assert!(matches!(untimed, Refusal::NoTtl(_)), "{untimed:?}");
    let timed = lockhouse
        .renew("b", Some(Duration::from_secs(60)))
        .await
        .unwrap();
    assert!(timed.expires_at.is_some());
}

/// P4.
pub async fn an_ended_request_cannot_be_renewed(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let ended = lockhouse.release("a").await.unwrap().request;
    let refused = refusal(lockhouse.renew("a", Some(Duration::from_secs(60))).await);
    let reason = EndReason::Released;
    assert_eq!(
        refused,
        Refusal::RequestEnded {
            external_id: ended.external_id.clone(),
            reason
        }
    );
    assert_eq!(lockhouse.find("a").await.unwrap(), ended);
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

/// P4.
pub async fn an_unknown_request_cannot_be_renewed_or_released(place: &Place) {
    let lockhouse = place.client().await;
    let unknown = Refusal::UnknownRequest("nobody".parse().unwrap());
    let renewed = lockhouse
        .renew("nobody", Some(Duration::from_secs(1)))
        .await;
    assert_eq!(refusal(renewed), unknown);
    assert_eq!(refusal(lockhouse.release("nobody").await), unknown);
    assert_eq!(refusal(lockhouse.find("nobody").await), unknown);
}

/// P4, as in redisson 4086 and redlock-rb 36: extending an expired hold succeeded.
pub async fn a_request_whose_time_has_passed_cannot_be_renewed(place: &Place) {
    let lockhouse = place.client().await;
    expired(&lockhouse).await;
    let renewed = refusal(lockhouse.renew("a", Some(Duration::from_secs(60))).await);
    let (external_id, reason) = ("a".parse().unwrap(), EndReason::Expired);
    assert_eq!(
        renewed,
        Refusal::RequestEnded {
            external_id,
            reason
        }
    );
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

/// P3, P4, as in redisson 4086 and redlock-rb 36: releasing an expired hold succeeded.
pub async fn a_request_whose_time_has_passed_was_not_released_by_its_holder(place: &Place) {
    let lockhouse = place.client().await;
    expired(&lockhouse).await;
    let released = lockhouse.release("a").await.unwrap();
    assert!(!released.now);
    assert_eq!(released.request.end_reason(), Some(EndReason::Expired));
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

/// A request `a` on `s` whose time has passed by the store's clock.
async fn expired(lockhouse: &Lockhouse) {
    lockhouse.define("s", 2).await.unwrap();
    let short = with_ttl(ask("a", &[("s", 1)]), Duration::from_millis(30));
    // If the answer takes longer than the TTL, it says that the request has expired.
    let _ = lockhouse.acquire(short, Duration::ZERO).await;
    let request = lockhouse.find("a").await.unwrap();
    // The time of another grant shows when the store's clock has passed the expiry.
    let mut i = 0;
    eventually("the store's clock passes the expiry", async || {
        i += 1;
        let id = format!("clock-{i}");
        let now = grant(lockhouse, &id, &[("s", 1)]).await.unwrap().created_at;
        lockhouse.release(&id).await.unwrap();
        now > request.expires_at.unwrap()
    })
    .await;
}
