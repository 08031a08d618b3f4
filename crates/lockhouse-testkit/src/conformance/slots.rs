//! Slots: exactly one live permit holds each taken slot.

use std::time::Duration;

use lockhouse::{Code, Lockhouse, Refusal, Request};

use super::steps::{ask, grant, refusal};
use crate::place::Place;

fn slots(request: &Request) -> Vec<u32> {
    let slots = request.permits[0].slots.as_ref();
    slots.map_or_else(Vec::new, |slots| slots.iter().collect())
}

async fn granted_slots(lockhouse: &Lockhouse, id: &str, count: u32) -> Vec<u32> {
    slots(&grant(lockhouse, id, &[("gpu", count)]).await.unwrap())
}

/// P1, P5.
pub async fn a_permit_has_the_lowest_free_slots(place: &Place) {
    let lockhouse = place.client().await;
    let status = lockhouse.define("gpu", 6).slots().await.unwrap();
    assert!(status.semaphore.is_slotted());
    assert_eq!(granted_slots(&lockhouse, "a", 1).await, [0]);
    assert_eq!(granted_slots(&lockhouse, "b", 2).await, [1, 2]);
    assert_eq!(granted_slots(&lockhouse, "c", 1).await, [3]);
    lockhouse.release("b").await.unwrap();
    assert_eq!(granted_slots(&lockhouse, "d", 3).await, [1, 2, 4]);
    assert_eq!(granted_slots(&lockhouse, "d", 3).await, [1, 2, 4], "again");
    let found = lockhouse.find("d").await.unwrap();
    assert_eq!(slots(&found), [1, 2, 4]);
    assert_eq!(granted_slots(&lockhouse, "e", 1).await, [5]);
    let full = refusal(grant(&lockhouse, "f", &[("gpu", 1)]).await);
    assert_eq!(full.code(), Code::Exhausted);
    assert!(lockhouse.verify().await.unwrap_or_default().is_empty());
}

/// P1.
pub async fn high_slots_drain_after_a_shrink(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("gpu", 4).slots().await.unwrap();
    for (slot, id) in (0..).zip(["a", "b", "c", "d"]) {
        assert_eq!(granted_slots(&lockhouse, id, 1).await, [slot]);
    }
    lockhouse.define("gpu", 2).await.unwrap();
    for id in ["a", "b"] {
        lockhouse.release(id).await.unwrap();
        let full = refusal(grant(&lockhouse, "e", &[("gpu", 1)]).await);
        assert_eq!(
            full.code(),
            Code::Exhausted,
            "two of the old slots are held"
        );
    }
    lockhouse.release("d").await.unwrap();
    assert_eq!(granted_slots(&lockhouse, "e", 1).await, [0]);
    assert_eq!(slots(&lockhouse.find("c").await.unwrap()), [2]);
    lockhouse.define("gpu", 5).await.unwrap();
    assert_eq!(granted_slots(&lockhouse, "f", 3).await, [1, 3, 4]);
    assert!(lockhouse.verify().await.unwrap_or_default().is_empty());
}

/// A permit keeps its slots for life.
pub async fn slots_are_turned_on_and_off_while_nothing_is_held(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("gpu", 4).await.unwrap();
    assert!(granted_slots(&lockhouse, "a", 1).await.is_empty());
    let held = refusal(lockhouse.define("gpu", 4).slots().await);
    assert!(
        matches!(held, Refusal::SemaphoreInUse { in_use: 1, .. }),
        "{held}"
    );
    lockhouse.release("a").await.unwrap();
    let differs = refusal(lockhouse.define("gpu", 4).slots().if_missing().await);
    assert_eq!(differs.code(), Code::CapacityChanged, "{differs}");
    lockhouse.define("gpu", 4).slots().await.unwrap();
    assert_eq!(granted_slots(&lockhouse, "b", 1).await, [0]);
    let resized = lockhouse.define("gpu", 3).await.unwrap();
    assert!(
        resized.semaphore.is_slotted(),
        "a resize that does not name slots keeps them"
    );
    lockhouse.release("b").await.unwrap();
    let plain = lockhouse.define("gpu", 3).without_slots().await.unwrap();
    assert!(!plain.semaphore.is_slotted());
}

pub async fn a_slotted_semaphore_has_at_most_4096_permits(place: &Place) {
    let lockhouse = place.client().await;
    let too_many = refusal(lockhouse.define("gpu", 4_097).slots().await);
    assert_eq!(too_many.code(), Code::InvalidRequest, "{too_many}");
    lockhouse.define("gpu", 4_096).slots().await.unwrap();
    let all: Vec<u32> = (0..4_096).collect();
    assert_eq!(granted_slots(&lockhouse, "all", 4_096).await, all);
    let too_many = refusal(lockhouse.define("gpu", 4_097).await);
    assert_eq!(too_many.code(), Code::InvalidRequest);
    let again = lockhouse.acquire(ask("all", &[("gpu", 4_096)]), Duration::ZERO);
    assert_eq!(slots(&again.await.unwrap().0), all);
}
