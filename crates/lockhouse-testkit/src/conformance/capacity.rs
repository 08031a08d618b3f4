//! P1 and P2: no more permits are live than the capacity, and the counter is the sum of the live permits.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Code, Refusal};

use super::steps::{ask, grant, in_use, name, refusal};
use crate::place::Place;

/// P1.
pub async fn permits_are_granted_up_to_the_capacity(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    for id in ["a", "b", "c"] {
        grant(&lockhouse, id, &[("s", 1)]).await.unwrap();
    }
    let full = refusal(grant(&lockhouse, "d", &[("s", 1)]).await);
    assert_eq!(full, Refusal::Exhausted(vec![name("s")]));
    assert_eq!(in_use(&lockhouse, "s").await, 3);
    lockhouse.release("b").await.unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 2);
    grant(&lockhouse, "d", &[("s", 1)]).await.unwrap();
}

/// P1.
pub async fn a_closed_semaphore_grants_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 0).await.unwrap();
    let closed = refusal(grant(&lockhouse, "a", &[("s", 1)]).await);
    assert_eq!(closed.code(), Code::Exhausted);
    assert!(closed.to_string().contains("closed"), "{closed}");
    let many = refusal(grant(&lockhouse, "a", &[("s", 9)]).await);
    assert_eq!(many.code(), Code::Exhausted);
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
}

/// P1.
pub async fn a_resize_below_use_revokes_nothing_and_grants_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    for id in ["a", "b", "c"] {
        grant(&lockhouse, id, &[("s", 1)]).await.unwrap();
    }
    lockhouse.define("s", 1).await.unwrap();
    let status = lockhouse.status("s").await.unwrap().semaphore;
    assert_eq!(
        (status.capacity.value(), status.in_use, status.available()),
        (1, 3, 0)
    );
    for id in ["a", "b"] {
        refusal(grant(&lockhouse, "d", &[("s", 1)]).await);
        lockhouse.release(id).await.unwrap();
    }
    refusal(grant(&lockhouse, "d", &[("s", 1)]).await);
    lockhouse.release("c").await.unwrap();
    grant(&lockhouse, "d", &[("s", 1)]).await.unwrap();
}

/// P1, P2.
pub async fn weights_count(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 10).await.unwrap();
    grant(&lockhouse, "a", &[("s", 7)]).await.unwrap();
    refusal(grant(&lockhouse, "b", &[("s", 4)]).await);
    grant(&lockhouse, "c", &[("s", 3)]).await.unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 10);
    lockhouse.release("a").await.unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 3);
}

/// P1, with two clients of 50 callers each.
pub async fn many_callers_at_once_never_exceed_the_capacity(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 7).await.unwrap();
    let calls = (0..100).map(|i| {
        let lockhouse = if i % 2 == 0 { one.clone() } else { two.clone() };
        async move { grant(&lockhouse, &format!("r{i}"), &[("s", 1)]).await }
    });
    let granted = join_all(calls)
        .await
        .into_iter()
        .filter(|result| match result {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.code(), Code::Exhausted, "{error}");
                false
            }
        });
    assert_eq!(granted.count(), 7);
    assert_eq!(in_use(&two, "s").await, 7);
}

/// P1.
pub async fn more_than_the_capacity_is_never_granted(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 5).await.unwrap();
    let waiting = lockhouse.acquire(ask("a", &[("s", 6)]), Duration::from_secs(600));
    let refused = refusal(waiting.await);
    assert_eq!(
        refused.code(),
        Code::ExceedsCapacity,
        "at once, not after the wait"
    );
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}
