//! [`Migration`](lockhouse_core::store::Migration) and `ready`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Kind};
use tokio::runtime::Runtime;
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

/// The rule ends each process 1 ms later than the one before, until one finishes the migration. Most leave a part of the schema,
/// unless the store commits a migration as a whole.
pub async fn a_migration_finishes_one_that_was_interrupted(place: &Place) {
    place.empty().await;
    let (mut limit, mut left) = (Duration::ZERO, BTreeSet::new());
    while !is_migrated_within(place, limit).await {
        let ready = place.unmigrated_store().ready().await;
        left.extend(ready.err().map(|error| error.to_string()));
        limit += Duration::from_millis(1);
    }
    assert!(left.len() > 1 || !place.migrates_in_steps(), "{left:?}");
    let store = place.unmigrated_store();
    store.ready().await.unwrap();
    let held = acquire_for("x", &["a"], Some("o"), None);
    run(&store, [define("a", 1), heartbeat("o", 60_000), held]).await;
    run(&store, [define("a", 2), release("x"), goodbye("o")]).await;
    let changes = store.history(&name("a"), ALL).await.unwrap();
    assert!(!changes.is_empty());
    let findings = store.recount().await.unwrap().findings();
    assert!(findings.is_empty(), "{findings:?}");
}

/// Migrates in a runtime that ends after `limit`, and with it each task of the store. Returns whether the migration was done.
async fn is_migrated_within(place: &Place, limit: Duration) -> bool {
    let process = Runtime::new().unwrap();
    let store = place.unmigrated_store();
    let migration = process.spawn(async move { store.migrate().await });
    let migrated = timeout(limit, migration).await;
    process.shutdown_background();
    let Ok(migrated) = migrated else { return false };
    migrated.unwrap().unwrap();
    true
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

/// Before the migration every call fails with `Kind::Schema`, and the error says to run `lockhouse migrate`. A store that needs
/// no schema is ready at once.
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

/// Both an open store and a new one refuse it.
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
