//! P7: per semaphore, grant order is strictly increasing fence order.

use super::{grant, in_use};
use crate::place::Place;

/// P7.
pub async fn fences_rise_with_every_grant(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 3).await.unwrap();
    let mut last = 0;
    for i in 0..12 {
        let lockhouse = if i % 2 == 0 { &one } else { &two };
        let request = grant(lockhouse, &format!("r{i}"), &[("s", 2)])
            .await
            .unwrap();
        assert!(request.permits[0].fence > last);
        last = request.permits[0].fence;
        lockhouse.release(format!("r{i}")).await.unwrap();
    }
    assert_eq!(one.status("s").await.unwrap().semaphore.fence, last);
}

/// P7.
pub async fn fences_go_on_after_deletion(place: &Place) {
    let lockhouse = place.client().await;
    let mut last = 0;
    for i in 0..3 {
        lockhouse.define("s", 1).await.unwrap();
        let fence = grant(&lockhouse, &format!("r{i}"), &[("s", 1)])
            .await
            .unwrap()
            .permits[0]
            .fence;
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        lockhouse.release(format!("r{i}")).await.unwrap();
        lockhouse.delete("s").await.unwrap();
    }
}

/// P7: the fence is the semaphore's own counter.
pub async fn each_semaphore_has_its_own_fence(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    lockhouse.define("t", 9).await.unwrap();
    for i in 0..3 {
        grant(&lockhouse, &format!("r{i}"), &[("s", 1)])
            .await
            .unwrap();
    }
    let both = grant(&lockhouse, "both", &[("t", 1), ("s", 1)])
        .await
        .unwrap();
    let fences: Vec<_> = both
        .permits
        .iter()
        .map(|p| (p.semaphore.as_str(), p.fence))
        .collect();
    assert_eq!(fences, [("s", 4), ("t", 1)]);
    assert_eq!(in_use(&lockhouse, "s").await, 4);
}
