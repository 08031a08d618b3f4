//! [`Migration`](lockhouse_core::store::Migration), `ready`, and [`Notification`](lockhouse_core::store::Notification).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::ProcessId;
use lockhouse_core::store::{Batch, Kind};
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::words::*;
use crate::place::{Place, make_schema_newer};

/// Several processes begin at the same moment, and each uses the store as soon as it has migrated.
pub async fn many_migrations_at_once_leave_one_schema(place: &Place) {
    place.empty().await;
    let stores: Vec<_> = (0..8).map(|_| place.unmigrated_store()).collect();
    let together = Arc::new(Barrier::new(stores.len()));
    let migrations = stores.iter().cloned().zip('a'..).map(|(store, of)| {
        let together = Arc::clone(&together);
        tokio::spawn(async move {
            together.wait().await;
            store.migrate().await.unwrap();
            store.ready().await.unwrap();
            run(&store, [define(&of.to_string(), 1)]).await;
        })
    });
    for migration in migrations.collect::<Vec<_>>() {
        migration.await.unwrap();
    }
    run(&stores[0], [acquire("x", &["a"])]).await;
    for store in &stores {
        store.ready().await.unwrap();
        assert!(request(store, "x").await.is_live());
        let of_all = store.semaphores(None, &first(ALL)).await.unwrap();
        assert_eq!(of_all.len(), stores.len());
    }
}

pub async fn a_migration_keeps_what_is_there(place: &Place) {
    let store = place.store().await;
    let held = acquire_for("x", &["a"], Some("o"), Some(60_000));
    run(&store, [define("a", 1), held, heartbeat("o", 60_000)]).await;
    let before = request(&store, "x").await;
    store.migrate().await.unwrap();
    let again = place.store().await;
    again.ready().await.unwrap();
    assert_eq!(request(&again, "x").await, before);
    assert_eq!(
        again.owners_in_use(&[owner("o")]).await.unwrap(),
        [owner("o")]
    );
}

/// Before that, a store whose schema is missing says so at every call. A store without a schema is ready at once.
pub async fn a_store_is_ready_once_it_is_migrated(place: &Place) {
    place.empty().await;
    let store = place.unmigrated_store();
    let batch = Batch::new(vec![define("a", 1)]);
    let (ready, batch) = (store.ready().await, store.transact(&batch).await);
    assert_eq!(ready.is_ok(), batch.is_ok(), "{ready:?}, {batch:?}");
    for error in [ready.err(), batch.err()].into_iter().flatten() {
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        assert!(error.to_string().contains("lockhouse migrate"), "{error}");
    }
    store.migrate().await.unwrap();
    store.ready().await.unwrap();
    run(&store, [define("a", 1), acquire("x", &["a"])]).await;
}

/// By a store that is open, and by a new one.
pub async fn a_schema_of_a_later_version_is_refused(place: &Place) {
    let open = place.store().await;
    run(&open, [define("a", 1)]).await;
    if !make_schema_newer(place, 1_000).await {
        return;
    }
    for store in [open, place.unmigrated_store()] {
        for error in [store.ready().await, store.migrate().await] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), Kind::Schema, "{error}");
            assert!(error.to_string().contains("version 1000"), "{error}");
        }
    }
}

/// The waiters of one process are notified of what another releases. An empty answer means that it may be any semaphore. A
/// store without notifications never answers.
pub async fn a_release_by_another_process_is_reported_if_the_store_notifies(place: &Place) {
    let (store, other) = (place.store().await, place.store().await);
    run(&other, ["a", "b"].map(|of| define(of, 1))).await;
    run(&other, ["a", "b"].map(|of| acquire(of, &[of]))).await;
    let on = BTreeSet::from(["a", "b"].map(name));
    let changed = async |within| {
        let changed = store.changed(&on, ProcessId::new(1));
        timeout(within, changed).await.ok()
    };
    let (a_while, a_moment) = (Duration::from_secs(1), Duration::from_millis(100));
    if !place.notifies() {
        assert_eq!(changed(a_moment).await, None);
        run(&other, [release("b")]).await;
        assert_eq!(changed(a_moment).await, None);
        return;
    }
    // A store may report what was before the first call.
    while changed(a_while).await.is_some() {}
    for (command, of) in [
        (release("b"), "b"),
        (define("a", 2), "a"),
        (delete("b"), "b"),
    ] {
        run(&other, [command]).await;
        let names = changed(SOON).await.expect("it is reported");
        let is_all = names.is_empty();
        assert!(is_all || names == BTreeSet::from([name(of)]), "{names:?}");
        while changed(a_while).await.is_some() {}
    }
}

/// A notification names only semaphores that the call asked for. A store without notifications never answers.
pub async fn a_notification_that_is_dropped_leaves_the_store_usable(place: &Place) {
    let (store, other) = (place.store().await, place.store().await);
    run(&store, [define("a", 1), acquire("x0", &["a"])]).await;
    let on = BTreeSet::from([name("a")]);
    for round in 0..5 {
        let changed = timeout(
            Duration::from_millis(50),
            store.changed(&on, ProcessId::new(1)),
        );
        let release = run(&other, [release(&format!("x{round}"))]);
        let (changed, ()) = tokio::join!(changed, release);
        if let Ok(names) = changed {
            assert!(names.is_subset(&on), "{names:?}");
        }
        let next = format!("x{}", round + 1);
        assert!(granted(&store, acquire(&next, &["a"])).await.is_live());
    }
}
