//! [`Maintenance::recount`](lockhouse_core::store::Maintenance::recount) and [`repair`](lockhouse_core::store::Maintenance::repair), where
//! nothing is wrong, and where a semaphore's counters are.

use std::sync::Arc;

use lockhouse_core::{Ask, Command, Count, Recounted, SemaphoreRow};

use super::words::*;
use crate::place::Place;
use crate::place::damage::{Damage, damage};

/// `a` with four live permits and one that ended, `b` with one live permit, a semaphore without any, and a deleted one.
pub(super) async fn held(place: &Place) -> Store {
    let store = place.store().await;
    let two = Ask::new(id("two"), [(name("a"), Count::new(2).unwrap())]);
    let commands = [
        define("a", 5),
        define("b", 5),
        define("empty", 0),
        define("gone", 1),
        acquire("x", &["a", "b"]),
        acquire("y", &["a"]),
        acquire("z", &["a"]),
    ];
    run(&store, commands).await;
    run(&store, [release("y"), delete("gone")]).await;
    run(&store, [Command::acquire(two.unwrap())]).await;
    store
}

async fn overwrite_counters(place: &Place, semaphore: &str, in_use: u32, fence: u64) {
    let counters = Damage::Counters { in_use, fence };
    assert!(damage(place, &[semaphore], counters).await);
}

/// P1, P2, P7
pub async fn a_recount_is_what_the_permits_add_up_to(place: &Place) {
    let store = held(place).await;
    let recount = store.recount().await.unwrap();
    assert!(recount.findings().is_empty());
    assert!(recount.torn.is_empty());
    let counted = recount.semaphores.iter().map(|counted| {
        let Recounted {
            semaphore,
            live,
            last_fence,
            repeated_fences,
            misfiled,
            ..
        } = counted;
        assert_eq!((*repeated_fences, *misfiled), (0, 0));
        let name = semaphore.name.as_str();
        (name, semaphore.exists(), *live, *last_fence)
    });
    let mut counted: Vec<_> = counted.collect();
    counted.sort_unstable();
    let expected = [
        ("a", true, 4, 4),
        ("b", true, 1, 1),
        ("empty", true, 0, 0),
        ("gone", false, 0, 0),
    ];
    assert_eq!(counted, expected);
    for counted in &recount.semaphores {
        let read = store.semaphore(&counted.semaphore.name).await.unwrap();
        let exists = counted.semaphore.exists();
        assert_eq!(read.as_ref(), exists.then_some(&counted.semaphore));
    }
}

/// P2: a recount is never from between two batches.
/// One of the semaphores has more live requests than a store reads at once.
pub async fn a_recount_sees_one_moment_beside_other_calls(place: &Place) {
    let store = held(place).await;
    run(&store, [define("many", 2_000)]).await;
    for piece in 0..4 {
        let asks = (0..300).map(|i| acquire(&format!("many-{piece}-{i}"), &["many"]));
        run(&store, asks).await;
    }
    let callers = (0..4).map(|caller| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..25 {
                run(&store, [release(&format!("many-{caller}-{round}"))]).await;
                let external_id = format!("{caller}-{round}");
                let on = &["many", "a", "b"][..1 + round % 3];
                let acquired = outcome(&store, acquire(&external_id, on)).await;
                if acquired.is_ok() {
                    run(&store, [release(&external_id)]).await;
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut counts = 0;
    while counts < 10 || callers.iter().any(|caller| !caller.is_finished()) {
        counts += 1;
        let findings = store.recount().await.unwrap().findings();
        assert!(findings.is_empty(), "{findings:?}");
    }
    for caller in callers {
        caller.await.unwrap();
    }
}

pub async fn a_repair_changes_nothing_that_is_right(place: &Place) {
    let store = held(place).await;
    let before = store.recount().await.unwrap();
    for semaphore in ["a", "b", "empty", "gone", "unknown"] {
        let was = store.repair(&name(semaphore)).await.unwrap();
        assert_eq!(was, None, "{semaphore}");
    }
    assert_eq!(store.recount().await.unwrap(), before);
}

/// P2, P7
pub async fn a_recount_finds_a_wrong_count_and_a_fence_that_is_too_low(place: &Place) {
    let store = held(place).await;
    for (in_use, fence, promise) in [(3, 4, "P2"), (4, 3, "P7")] {
        overwrite_counters(place, "a", in_use, fence).await;
        let findings = store.recount().await.unwrap().findings();
        let [found] = &findings[..] else {
            panic!("not one for {promise}: {findings:?}");
        };
        assert_eq!((found.promise, found.can_be_repaired), (promise, true));
        assert_eq!(found.semaphore, Some(name("a")));
    }
}

/// P2, P7
pub async fn a_repair_corrects_the_counters_and_returns_what_was(place: &Place) {
    let store = held(place).await;
    let right = semaphore(&store, "a").await;
    for (in_use, fence) in [(5, 4), (0, 4), (4, 1), (1, 0)] {
        overwrite_counters(place, "a", in_use, fence).await;
        let wrong = SemaphoreRow {
            in_use,
            fence,
            ..right.clone()
        };
        assert_eq!(store.repair(&name("a")).await.unwrap(), Some(wrong));
        assert_eq!(semaphore(&store, "a").await, right);
        assert_eq!(store.repair(&name("a")).await.unwrap(), None);
    }
    assert!(store.recount().await.unwrap().findings().is_empty());
}

/// P7
pub async fn a_repair_leaves_a_fence_that_is_ahead(place: &Place) {
    let store = held(place).await;
    overwrite_counters(place, "a", 1, 50).await;
    assert!(store.repair(&name("a")).await.unwrap().is_some());
    let repaired = semaphore(&store, "a").await;
    assert_eq!((repaired.in_use, repaired.fence), (4, 50));
    let next = granted(&store, acquire("next", &["a"])).await;
    assert_eq!(next.permits[0].fence, 51);
}

pub async fn a_repair_corrects_a_deleted_semaphore(place: &Place) {
    let store = held(place).await;
    overwrite_counters(place, "gone", 1, 0).await;
    assert!(!store.recount().await.unwrap().findings().is_empty());
    let was = store.repair(&name("gone")).await.unwrap().unwrap();
    assert!(!was.exists() && was.in_use == 1, "{was:?}");
    assert!(store.recount().await.unwrap().findings().is_empty());
}
