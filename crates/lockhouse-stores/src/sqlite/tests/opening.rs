use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{
    Due, Error, Kind, Listing as _, Maintenance as _, Migration as _, Purge,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::*;
use crate::sqlite::schema::MIGRATIONS;

/// SQLite may refuse to turn a new file to WAL while others open it. Few meet at one file, so there are ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_new_file_is_turned_to_wal_by_eight_at_once() {
    for _ in 0..10 {
        let place = Place::new();
        let together = Arc::new(Barrier::new(8));
        let mut all = JoinSet::new();
        for _ in 0..8 {
            let (store, together) = (place.store(), Arc::clone(&together));
            all.spawn(async move {
                together.wait().await;
                store.migrate().await
            });
        }
        while let Some(migrated) = all.join_next().await {
            migrated.unwrap().unwrap();
        }
        let count = "SELECT count(*) FROM lockhouse_schema_version";
        let applied: u32 = place
            .connect()
            .query_row(count, (), |row| row.get(0))
            .unwrap();
        assert_eq!(applied as usize, MIGRATIONS.len());
    }
}

#[tokio::test]
async fn migrating_again_needs_no_lock() {
    let (place, _) = Place::migrated().await;
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    place.store().migrate().await.unwrap();
}

/// All calls but `migrate`.
async fn errors_of_all_calls(store: &Sqlite) -> Vec<Error> {
    let age = Duration::ZERO;
    vec![
        run(store, define("a", 1)).await.unwrap_err(),
        store.semaphore(&name("a")).await.unwrap_err(),
        store.semaphores(None, &first(1)).await.unwrap_err(),
        store.request(&id("a")).await.unwrap_err(),
        store
            .holders(&Holders::default(), &first(1))
            .await
            .unwrap_err(),
        store.history(&name("a"), 1).await.unwrap_err(),
        store.due(Due::Lapsed { on: None }, 1).await.unwrap_err(),
        store.owners(&first(1)).await.unwrap_err(),
        store.purge(Purge::Requests { age }, 1).await.unwrap_err(),
        store.recount().await.unwrap_err(),
        store.repair(&name("a")).await.unwrap_err(),
        store.ready().await.unwrap_err(),
    ]
}

#[tokio::test]
async fn without_a_schema_all_calls_say_to_migrate() {
    let place = Place::new();
    let store = place.store();
    let missing = errors_of_all_calls(&store).await;
    assert!(!place.file.exists(), "asking creates nothing");
    fs::write(&place.file, "").unwrap();
    let empty = errors_of_all_calls(&store).await;
    for error in missing.iter().chain(&empty) {
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        assert!(error.to_string().contains("`lockhouse migrate`"), "{error}");
    }
    store.migrate().await.unwrap();
    store.ready().await.unwrap();
}

/// Each transaction checks the version, since another process may migrate at any time.
#[tokio::test]
async fn all_calls_on_an_open_connection_refuse_a_newer_schema() {
    let (place, store) = Place::migrated().await;
    run(&store, define("a", 1)).await.unwrap().unwrap();
    store.ready().await.unwrap();
    let newer = "INSERT INTO lockhouse_schema_version VALUES (1000, 0)";
    place.connect().execute(newer, ()).unwrap();
    for error in errors_of_all_calls(&store).await {
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        assert!(error.to_string().contains("use a newer one"), "{error}");
    }
}

#[tokio::test]
async fn missing_folders_are_created_and_paths_may_have_spaces() {
    let place = Place::new();
    let file = place
        .folder
        .path()
        .join("my files/deep down/per mits 100%.db");
    for url in [
        format!("sqlite:{}", file.display()),
        format!("sqlite://{}", file.display()),
    ] {
        let store = Sqlite::open(&url).unwrap();
        store.migrate().await.unwrap();
        store.ready().await.unwrap();
        assert!(file.is_file());
    }
}

#[tokio::test]
async fn a_folder_that_can_not_be_created_is_named() {
    let place = Place::new();
    fs::write(place.folder.path().join("taken"), "").unwrap();
    let folder = place.folder.path().join("taken/deep");
    let store = Sqlite::open(&format!("sqlite:{}/permits.db", folder.display())).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration);
    assert!(
        error.to_string().contains(folder.to_str().unwrap()),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_unchanged() {
    let place = Place::new();
    let text = "no database, but long enough to look like the head of one\n".repeat(20);
    fs::write(&place.file, &text).unwrap();
    let error = place.store().migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert_eq!(fs::read_to_string(&place.file).unwrap(), text);

    let folder = format!("sqlite:{}", place.folder.path().display());
    let error = Sqlite::open(&folder).unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
}

#[tokio::test]
async fn a_file_in_utf_16_is_refused() {
    let place = Place::new();
    let file = rusqlite::Connection::open(&place.file).unwrap();
    file.execute_batch("PRAGMA encoding = 'UTF-16'; CREATE TABLE t (x)")
        .unwrap();
    let error = place.store().migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("in UTF-8"), "{error}");
}

#[tokio::test]
#[cfg(unix)]
async fn nothing_is_granted_on_a_file_that_was_removed_or_replaced() {
    let (place, store) = Place::migrated().await;
    run(&store, define("a", 1)).await.unwrap().unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", place.file.display()));
    }
    let removed = run(&store, acquire("r", "a")).await.unwrap_err();
    assert_eq!(removed.kind(), Kind::Schema, "{removed}");
    let other = place.store();
    other.migrate().await.unwrap();
    run(&other, define("a", 1)).await.unwrap().unwrap();
    run(&other, acquire("other", "a")).await.unwrap().unwrap();
    run(&store, acquire("r", "a")).await.unwrap().unwrap_err();
}
