//! The calls of [`Store`](lockhouse_core::store::Store) that read several semaphores, look for locked rows, and count
//! connections.

use lockhouse_core::store::Connections;
use lockhouse_core::{Footprint, SemaphoreRow};

use super::words::*;
use crate::place::Place;

pub async fn the_named_semaphores_that_exist_are_read_together(place: &Place) {
    let store = place.store().await;
    run(&store, ["a", "A", "b", "c", "gone"].map(|of| define(of, 3))).await;
    run(&store, [acquire("x", &["a", "b"]), delete("gone")]).await;
    let asked = ["b", "B", "unknown", "gone", "a", "it's"].map(name);
    let mut found: Vec<SemaphoreRow> = store.named(&asked).await.unwrap();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let expected = [semaphore(&store, "a").await, semaphore(&store, "b").await];
    assert_eq!(found, expected);
    assert_eq!(found[0].in_use, 1);
    assert!(store.named(&[]).await.unwrap().is_empty());
}

/// P13: rows that do not exist do not count as locked either. The store's own tests lock rows.
pub async fn no_row_is_locked_while_nobody_uses_it(place: &Place) {
    let (store, other) = (place.store().await, place.store().await);
    let held = acquire_for("x", &["a"], Some("o"), None);
    run(&store, [define("a", 9), held, heartbeat("o", 60_000)]).await;
    let rows = Footprint {
        semaphores: ["a", "unknown"].map(name).into(),
        requests: ["x", "unknown"].map(id).into(),
        owners: ["o", "unknown"].map(owner).into(),
        ..Footprint::default()
    };
    for rows in [rows, Footprint::default()] {
        assert_eq!(store.locked(&rows).await.unwrap(), Footprint::default());
    }
    let batch = [acquire("y", &["a"]), release("x"), heartbeat("o", 60_000)];
    run(&other, batch).await;
    assert_eq!(semaphore(&store, "a").await.in_use, 1);
}

/// Calls one after another use one connection again and again, or one for reads and another for writes. A store without
/// connections counts none.
pub async fn connections_are_counted_and_used_again(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 1)]).await;
    let most = store.connections().most;
    for _ in 0..=most {
        semaphore(&store, "a").await;
        run(&store, [define("a", 1)]).await;
    }
    let counted = store.connections();
    if most == 0 {
        assert_eq!(counted, Connections::default());
        return;
    }
    assert_eq!((counted.most, counted.queued), (most, 0));
    assert!((1..=2).contains(&counted.opened), "{counted:?}");
    let open = (counted.busy + counted.idle) as u64;
    assert!((1..=counted.opened).contains(&open), "{counted:?}");
    // A call may end shortly after its answer.
    assert!(counted.busy <= 1, "{counted:?}");
}
