//! P7: on one semaphore, each grant has a greater fence than the one before.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use lockhouse::{Epoch, Lockhouse, Raised};

use super::steps::{eventually, grant, in_use};
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

/// The next fence of `semaphore`, from a grant on it.
async fn next_fence(lockhouse: &Lockhouse, id: &str, semaphore: &str) -> u64 {
    let request = grant(lockhouse, id, &[(semaphore, 1)]).await.unwrap();
    request.permits[0].fence
}

/// Raises the epoch. `None` through a server, which answers that this must be done at its database.
async fn raise(lockhouse: &Lockhouse, to: Option<Epoch>) -> Option<Raised> {
    match lockhouse.raise_epoch(to).await {
        Ok(raised) => Some(raised),
        Err(error) => {
            assert!(error.to_string().contains("server"), "{error}");
            None
        }
    }
}

/// P7: also above the fences of deleted semaphores, and of names that the store does not know.
pub async fn a_new_epoch_is_above_all_fences_of_before(place: &Place) {
    let (lockhouse, other) = (place.client().await, place.client().await);
    for name in ["deleted", "kept"] {
        lockhouse.define(name, 9).await.unwrap();
        let id = format!("first on {name}");
        assert_eq!(next_fence(&lockhouse, &id, name).await, 1);
    }
    lockhouse.release("first on deleted").await.unwrap();
    lockhouse.delete("deleted").await.unwrap();
    let Some(raised) = raise(&other, None).await else {
        return;
    };
    let epochs = (raised.old.value(), raised.new.value(), raised.semaphores);
    assert_eq!(epochs, (0, 1, 2));
    for name in ["deleted", "kept", "new"] {
        lockhouse.define(name, 9).await.unwrap();
        let id = format!("second on {name}");
        assert_eq!(next_fence(&lockhouse, &id, name).await, (1 << 32) + 1);
    }
    let held = lockhouse.find("first on kept").await.unwrap();
    assert!(held.is_live() && held.permits[0].fence == 1, "{held:?}");
    let names: Vec<_> = lockhouse.semaphores(None, 9).await.unwrap();
    assert_eq!(names.len(), 3, "the store's own row is no semaphore");
    assert!(lockhouse.verify().await.unwrap().is_empty());
}

/// P7: raising twice does the same as raising once, and never lowers a fence.
pub async fn an_epoch_is_only_raised(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    let five = Epoch::new(5).unwrap();
    let Some(raised) = raise(&lockhouse, Some(five)).await else {
        return;
    };
    assert_eq!((raised.new, raised.semaphores), (five, 1));
    let again = raise(&lockhouse, Some(five)).await.unwrap();
    assert_eq!((again.old, again.new, again.semaphores), (five, five, 0));
    let back = lockhouse.raise_epoch(Some(Epoch::new(4).unwrap())).await;
    assert!(back.unwrap_err().to_string().contains("fences in epoch 5"));
    assert_eq!(next_fence(&lockhouse, "one", "s").await, (5 << 32) + 1);
    let next = raise(&lockhouse, None).await.unwrap();
    assert_eq!((next.old, next.new.value()), (five, 6));
    raise(&lockhouse, Some(Epoch::LAST)).await.unwrap();
    let none_is_left = lockhouse.raise_epoch(None).await.unwrap_err();
    assert!(
        none_is_left.to_string().contains("2097151"),
        "{none_is_left}"
    );
    let last = next_fence(&lockhouse, "two", "s").await;
    assert_eq!(last, Epoch::LAST.fence() + 1, "it goes on granting");
}

/// P7: other clients create, delete and grant meanwhile. After the raise, all existing semaphores have the new epoch.
pub async fn an_epoch_misses_nothing_that_is_made_meanwhile(place: &Place) {
    const MAKERS: u64 = 4;
    let lockhouse = place.client().await;
    let is_raised = AtomicBool::new(false);
    let makers = (0..MAKERS).map(async |maker| {
        let lockhouse = place.client().await;
        let mut names = Vec::new();
        // At least one semaphore is created after the raise.
        let mut more = true;
        for i in 0.. {
            if !more {
                break;
            }
            more = !is_raised.load(Ordering::Relaxed);
            let name = format!("s{maker}-{i}");
            lockhouse.define(&name, 9).await.unwrap();
            next_fence(&lockhouse, &format!("{name}, first"), &name).await;
            names.push(name);
        }
        names
    });
    let raising = async {
        let many = async || lockhouse.semaphores(None, 9).await.unwrap().len() == 9;
        eventually("some are made", many).await;
        let raised = raise(&lockhouse, None).await;
        is_raised.store(true, Ordering::Relaxed);
        raised
    };
    let (raised, made) = tokio::join!(raising, join_all(makers));
    if raised.is_none() {
        return;
    }
    for name in made.into_iter().flatten() {
        let fence = next_fence(&lockhouse, &format!("{name}, second"), &name).await;
        assert!(fence > 1 << 32, "{name}: {fence}");
    }
}
