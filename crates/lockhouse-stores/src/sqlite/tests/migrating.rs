use std::time::Duration;

use lockhouse_core::store::{Due, Kind, Listing as _, Maintenance as _, Migration as _, Purge};
use lockhouse_core::{EndReason, Timestamp};

use super::*;
use crate::sqlite::schema::MIGRATIONS;

/// Rows that version 1 wrote: `a` with a live request that has an owner and a time to live, one
/// that has neither, and one that ended; and a change of its capacity.
const ROWS: &str = "
    INSERT INTO lockhouse_schema_version (version, applied_at) VALUES (1, 5);
    INSERT INTO lockhouse_semaphore
        (name, capacity, in_use, fence, created_at, updated_at, deleted_at)
        VALUES ('a', 5, 3, 9, 10, 20, NULL);
    INSERT INTO lockhouse_permit_request
        (external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at)
        VALUES ('live', 'o', 'ACQUIRED', NULL, 60000, 4000000000000000, 30, NULL),
            ('lasting', NULL, 'ACQUIRED', NULL, NULL, NULL, 31, NULL),
            ('ended', 'o', 'RELEASED', 'forced', NULL, NULL, 29, 40);
    INSERT INTO lockhouse_permit (permit_request_id, semaphore_id, count, fence, state)
        VALUES (1, 1, 2, 8, 'ACQUIRED'), (2, 1, 1, 9, 'ACQUIRED'), (3, 1, 5, 7, 'RELEASED');
    INSERT INTO lockhouse_capacity_change
        (semaphore_id, old_capacity, new_capacity, changed_by, note, changed_at)
        VALUES (1, 4, 5, 'boss', NULL, 20);";

/// A place whose file has version 1 of the schema, and a store on it.
fn place_of_version_1() -> (Place, Sqlite) {
    let place = Place::new();
    let connection = place.connect();
    connection
        .execute_batch("PRAGMA journal_mode = WAL")
        .unwrap();
    connection.execute_batch(MIGRATIONS[0]).unwrap();
    connection.execute_batch(ROWS).unwrap();
    let store = place.store();
    (place, store)
}

#[tokio::test]
async fn a_schema_of_version_1_is_asked_to_be_migrated() {
    let (_place, store) = place_of_version_1();
    let error = store.ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    assert!(error.to_string().contains("has version 1"), "{error}");
    assert!(error.to_string().contains("`lockhouse migrate`"), "{error}");
}

#[tokio::test]
async fn rows_of_version_1_are_kept_by_migrating() {
    let (_place, store) = place_of_version_1();
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();
    let live = store.request(&id("live")).await.unwrap().unwrap();
    assert!(live.is_live());
    assert_eq!(live.owner, Some(owner("o")));
    assert_eq!(
        (live.permits[0].count.value(), live.permits[0].fence),
        (2, 8)
    );
    let ended = store.request(&id("ended")).await.unwrap().unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Forced));
    assert_eq!(ended.released_at(), Timestamp::from_microsecond(40).ok());
    assert_eq!((live.ended_by, ended.ended_by), (None, None));
    let holders = store
        .holders(&Holders::on(name("a")), &first(9))
        .await
        .unwrap();
    assert_eq!(ids(&holders.requests), ["live", "lasting"]);
    assert_eq!(store.history(&name("a"), 9).await.unwrap().len(), 1);
    assert!(store.recount().await.unwrap().findings().is_empty());
}

/// P2, P7, P10
#[tokio::test]
async fn requests_of_version_1_go_on_after_migrating() {
    let (_place, store) = place_of_version_1();
    store.migrate().await.unwrap();
    let next = granted(run(&store, acquire("next", "a")).await);
    assert_eq!(next.permits[0].fence, 10);
    assert_eq!(store.owners(&first(9)).await.unwrap(), [owner("o")]);
    let age = Duration::from_secs(60);
    let stale = store.stale(age, &first(9)).await.unwrap();
    assert_eq!(ids(&stale.requests), ["lasting"]);
    let by = Some(owner("operator"));
    run_all(
        &store,
        [
            heartbeat("o", 1_000),
            Command::release(id("live")),
            end("lasting", Cause::Forced { by: by.clone() }),
        ],
    )
    .await;
    let lasting = store.request(&id("lasting")).await.unwrap().unwrap();
    assert_eq!(lasting.ended_by, by);
    let a = store.semaphore(&name("a")).await.unwrap().unwrap();
    assert_eq!(a.in_use, 1);
    let purged = store.purge(Purge::Requests { age }, 9).await.unwrap();
    assert_eq!(purged, 1);
    assert_eq!(store.request(&id("ended")).await.unwrap(), None);
    let changes = Purge::CapacityChanges { age };
    assert_eq!(store.purge(changes, 9).await.unwrap(), 1);
    assert!(store.recount().await.unwrap().findings().is_empty());
}

/// P10, P12. Requests of older versions do not say which semaphore they are found by.
#[tokio::test]
async fn lapsed_requests_are_found_after_an_upgrade_from_each_version() {
    for version in 1..MIGRATIONS.len() {
        let (place, store) = place_of_version_1();
        let connection = place.connect();
        for (number, migration) in (1..=version).zip(MIGRATIONS).skip(1) {
            connection.execute_batch(migration).unwrap();
            let applied = "INSERT INTO lockhouse_schema_version VALUES (?1, 5)";
            connection.execute(applied, [number as i64]).unwrap();
        }
        let lapse =
            "UPDATE lockhouse_permit_request SET expires_at = 50 WHERE external_id = 'live'";
        connection.execute(lapse, ()).unwrap();
        store.migrate().await.unwrap();
        granted(run(&store, acquire("next", "a")).await);
        let on = [name("a")];
        let due = store.due(Due::Lapsed { on: Some(&on) }, 9).await.unwrap();
        assert_eq!(ids(&due), ["live"], "version {version}");
        let only =
            "SELECT only_semaphore_id FROM lockhouse_permit_request WHERE external_id = 'next'";
        let only: i64 = connection.query_row(only, (), |row| row.get(0)).unwrap();
        assert_eq!(only, 1, "version {version}");
        assert!(store.recount().await.unwrap().findings().is_empty());
    }
}
