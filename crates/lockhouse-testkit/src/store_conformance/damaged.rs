//! Damaged rows: what [`Maintenance::recount`](lockhouse_core::store::Maintenance::recount) finds, and what
//! [`repair`](lockhouse_core::store::Maintenance::repair) corrects.

use lockhouse_core::store::Due;
use lockhouse_core::{ExternalId, Recount};
use tokio::time::{Duration, sleep};

use super::counting::held;
use super::words::*;
use crate::place::Place;
use crate::place::damage::{Damage, damage};

/// The findings of a recount, as "P2 a, repairable" or "P3".
async fn found(store: &Store) -> Vec<String> {
    let findings = store.recount().await.unwrap().findings();
    let found = findings.into_iter().map(|finding| {
        let on = finding.semaphore.map(|name| format!(" {name}"));
        let repairable = ["", ", repairable"][usize::from(finding.can_be_repaired)];
        format!("{}{}{repairable}", finding.promise, on.unwrap_or_default())
    });
    found.collect()
}

/// P1: a semaphore whose last fence no permit has was resized since the last grant. Then more permits than its capacity may
/// be live.
pub async fn a_recount_finds_grants_beyond_the_capacity(place: &Place) {
    let store = held(place).await;
    for (capacity, fence, expected) in [(3, 4, &["P1 a"][..]), (3, 5, &[]), (4, 4, &[])] {
        let counters = Damage::Counters { in_use: 4, fence };
        for change in [Damage::Capacity(capacity), counters] {
            assert!(damage(place, &["a"], change).await);
        }
        assert_eq!(found(&store).await, expected, "{capacity}, {fence}");
    }
}

/// P7
pub async fn a_recount_finds_a_fence_that_was_granted_twice(place: &Place) {
    let store = held(place).await;
    assert!(damage(place, &["two"], Damage::Fence(1)).await);
    assert_eq!(found(&store).await, ["P7 a"]);
    let fence = 2;
    let counters = Damage::Counters { in_use: 1, fence };
    assert!(damage(place, &["a"], counters).await);
    let wrong = ["P2 a, repairable", "P7 a, repairable", "P7 a"];
    assert_eq!(found(&store).await, wrong);
}

/// P1: permits that were granted before a resize do not count against it, even if the clock was set back in between.
pub async fn a_clock_that_was_set_back_breaks_no_promise(place: &Place) {
    let store = held(place).await;
    assert!(damage(place, &["x", "y", "z", "two"], Damage::AnHourLater).await);
    run(&store, [define("a", 1)]).await;
    assert!(found(&store).await.is_empty());
    let last = semaphore(&store, "a").await.fence;
    assert!(damage(place, &["two"], Damage::Fence(last)).await);
    assert_eq!(found(&store).await, ["P1 a"], "a grant since");
}

/// P3
pub async fn each_torn_request_is_found(place: &Place) {
    let store = held(place).await;
    run(&store, [define("t", 99)]).await;
    let mut torn = Vec::new();
    for (tear, is_live) in [
        (Damage::EndedWithoutReason, false),
        (Damage::EndedWithoutTime, false),
        (Damage::LiveWithReason, true),
        (Damage::LiveWithTime, true),
        (Damage::LiveWithCaller, true),
        (Damage::OnlyStateEnded, true),
        (Damage::WithoutPermits, false),
        (Damage::WithoutPermits, true),
    ] {
        let external_id = format!("{tear:?}, {is_live}");
        run(&store, [acquire(&external_id, &["t"])]).await;
        if !is_live {
            run(&store, [release(&external_id)]).await;
        }
        if damage(place, &[&external_id], tear).await {
            torn.push(id(&external_id));
            torn.sort();
        }
        let named = store.recount().await.unwrap().torn;
        assert_eq!(named, torn, "{tear:?}");
        let found = found(&store).await.into_iter();
        assert_eq!(found.filter(|found| found == "P3").count(), torn.len());
    }
    assert!(torn.len() >= 3, "each store has a form of three");
}

pub async fn the_first_thousand_torn_requests_are_named_in_byte_order(place: &Place) {
    let store = held(place).await;
    run(&store, [define("t", 9_999)]).await;
    let ids: Vec<_> = (0..Recount::MOST_TORN + 2)
        .map(|number| format!("{number:04}"))
        .collect();
    for piece in ids.rchunks(store.max_batch()) {
        let asks = piece.iter().rev().map(|of| acquire(of, &["t"]));
        run(&store, asks).await;
    }
    let of: Vec<_> = ids.iter().map(String::as_str).collect();
    assert!(damage(place, &of, Damage::WithoutPermits).await);
    let torn = store.recount().await.unwrap().torn;
    let first = of[..Recount::MOST_TORN].iter();
    let expected: Vec<ExternalId> = first.map(|of| id(of)).collect();
    assert_eq!(torn, expected);
}

/// P2
pub async fn permits_without_a_live_request_do_not_count(place: &Place) {
    let store = held(place).await;
    let mut live = 4;
    for (external_id, change, permits, on) in [
        ("x", Damage::Lost, 1, &["a", "b"][..]),
        ("z", Damage::OnlyStateEnded, 1, &["a"]),
        ("two", Damage::WithoutPermits, 2, &["a"]),
    ] {
        if !damage(place, &[external_id], change).await {
            continue;
        }
        live -= permits;
        let mut wrong = found(&store).await;
        wrong.retain(|found| found != "P3");
        let expected = on.iter().map(|on| format!("P2 {on}, repairable"));
        assert!(wrong.into_iter().eq(expected));
        for on in on {
            assert!(store.repair(&name(on)).await.unwrap().is_some());
        }
        assert_eq!(semaphore(&store, "a").await.in_use, live, "{change:?}");
    }
    assert!(live <= 2, "each store can lose the permits of one");
}

/// P10: `both` holds two semaphores, and `one` holds one.
pub async fn a_repair_files_requests_so_that_a_refusal_finds_them(place: &Place) {
    let store = held(place).await;
    let ask = |external_id, on| acquire_for(external_id, on, None, Some(1));
    run(&store, [ask("both", &["a", "b"][..])]).await;
    run(&store, [define("a", 9), ask("one", &["a"])]).await;
    sleep(Duration::from_millis(20)).await;
    let a = name("a");
    let due = async || {
        let on = Due::Lapsed {
            on: Some(std::slice::from_ref(&a)),
        };
        let due = store.due(on, ALL).await.unwrap();
        ids(&due).join(" ")
    };
    for (misfiled, left, on) in [("both", "one", &["a", "b"][..]), ("one", "both", &["a"])] {
        if !damage(place, &[misfiled], Damage::Misfiled).await {
            continue;
        }
        assert_eq!(due().await, left);
        let expected = on.iter().map(|on| format!("P10 {on}, repairable"));
        assert_eq!(found(&store).await, expected.collect::<Vec<_>>());

        let right = semaphore(&store, "a").await;
        assert_eq!(store.repair(&a).await.unwrap(), Some(right.clone()));
        assert_eq!(store.repair(&a).await.unwrap(), None);
        assert_eq!(semaphore(&store, "a").await, right);
        assert_eq!(due().await, "both one");
        // A store may file a request on all its semaphores at once.
        let left = found(&store).await;
        let repaired = store.repair(&name("b")).await.unwrap();
        assert_eq!(repaired.is_none(), left.is_empty(), "{left:?}");
        assert!(found(&store).await.is_empty());
    }
}
