//! [`Migration`](lockhouse_core::store::Migration), `ready`, and a
//! [`Notification`](lockhouse_core::store::Notification) that is dropped.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::ProcessId;
use tokio::time::timeout;

use super::words::*;
use crate::place::Place;

/// Several processes migrate.
pub async fn many_migrations_at_once_leave_one_schema(place: &Place) {
    let stores: Vec<_> = (0..4).map(|_| place.unmigrated_store()).collect();
    let migrations = stores.iter().cloned();
    let migrations = migrations.map(|store| tokio::spawn(async move { store.migrate().await }));
    for migration in migrations.collect::<Vec<_>>() {
        migration.await.unwrap().unwrap();
    }
    run(&stores[0], [define("a", 1), acquire("x", &["a"])]).await;
    for store in &stores {
        store.ready().await.unwrap();
        assert!(request(store, "x").await.is_live());
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
