//! Purging: rows of the past go, and nobody waits for it.

use std::time::{Duration, Instant};

use lockhouse_core::Command;
use lockhouse_core::store::{Batch, Purge};

use crate::database::{
    Database, Served, acquire, acquire_for, define, granted, name, on_every_server, one, release,
};

on_every_server! {
    the_row_of_a_deleted_semaphore_stays_until_that_of_the_epoch_is_10_s_old,
    a_purge_waits_for_nobody,
    a_purge_that_hangs_delays_no_call,
}

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const REQUESTS: Purge = Purge::Requests { age: WEEK };

/// Ends `count` requests `r000`… on `a` and `b`, eight days ago; the first earliest.
async fn past(database: &Database, count: usize) -> Served {
    let store = database.migrated().await;
    let mut commands = vec![define("a", 999), define("b", 999)];
    for i in 0..count {
        commands.push(acquire_for(format!("r{i:03}"), &["a", "b"], "o", None));
        commands.push(release(format!("r{i:03}")));
    }
    for outcome in store.transact(&Batch::new(commands)).await.unwrap() {
        outcome.unwrap();
    }
    let ago = (0..count).map(|i| {
        format!(
            "UPDATE lockhouse_permit_request SET released_at=\
             released_at-INTERVAL '8' DAY+INTERVAL '{i}' SECOND WHERE external_id='r{i:03}';"
        )
    });
    let ago: String = ago.collect();
    database.session().await.run(&ago).await;
    store
}

async fn counts(database: &Database) -> (u64, u64) {
    let mut session = database.session().await;
    let requests = session
        .number("SELECT COUNT(*) FROM lockhouse_permit_request")
        .await;
    let permits = session
        .number("SELECT COUNT(*) FROM lockhouse_permit")
        .await;
    (requests, permits)
}

/// P7. A call that is under way may not know of a new epoch.
async fn the_row_of_a_deleted_semaphore_stays_until_that_of_the_epoch_is_10_s_old(
    database: &Database,
) {
    let store = database.migrated().await;
    let delete = Command::Delete { name: name("a") };
    for command in [define("a", 1), delete] {
        one(&store, command).await.unwrap().unwrap();
    }
    let age = Duration::ZERO;
    let purge = async || store.purge(Purge::Semaphores { age }, 9).await.unwrap();
    assert_eq!(purge().await, 0, "a new epoch");
    let earlier = "UPDATE lockhouse_semaphore SET created_at=created_at-INTERVAL '11' SECOND \
        WHERE name='lockhouse:epoch'";
    database.session().await.run(earlier).await;
    assert_eq!(purge().await, 1);
}

/// All that is not of the past is locked, and one that is, too: that one is left.
async fn a_purge_waits_for_nobody(database: &Database) {
    let store = past(database, 9).await;
    let live = (0..9).map(|i| acquire(format!("live{i}"), &["a", "b"]));
    store.transact(&Batch::new(live.collect())).await.unwrap();
    // Ids go by time; here the past and the present lie side by side.
    let mut side_by_side = String::new();
    for i in 0..9 {
        for (external_id, id) in [
            (format!("live{i}"), 10 + 2 * i),
            (format!("r{i:03}"), 11 + 2 * i),
        ] {
            side_by_side += &format!(
                "UPDATE lockhouse_permit SET permit_request_id={id} WHERE permit_request_id=\
                 (SELECT id FROM lockhouse_permit_request WHERE external_id='{external_id}'); \
                 UPDATE lockhouse_permit_request SET id={id} WHERE external_id='{external_id}';"
            );
        }
    }
    database.session().await.run(&side_by_side).await;
    assert!(store.recount().await.unwrap().torn.is_empty());
    let mut other = database.session().await;
    other
        .run(
            "START TRANSACTION; \
         SELECT * FROM lockhouse_semaphore FOR UPDATE; \
         SELECT * FROM lockhouse_permit_request WHERE state='ACQUIRED' FOR UPDATE; \
         SELECT * FROM lockhouse_permit \
         WHERE permit_request_id IN (10,12,14,16,18,20,22,24,26) FOR UPDATE; \
         SELECT * FROM lockhouse_permit_request WHERE external_id='r004' FOR UPDATE",
        )
        .await;
    let started = Instant::now();
    assert_eq!(store.purge(REQUESTS, 99).await.unwrap(), 8);
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("ROLLBACK").await;
    assert_eq!(store.purge(REQUESTS, 99).await.unwrap(), 1);
    assert_eq!(counts(database).await, (9, 18));
}

/// Another session executes a purge up to its COMMIT, and then stops.
async fn a_purge_that_hangs_delays_no_call(database: &Database) {
    let store = past(database, 9).await;
    granted(one(&store, acquire("live", &["a", "b"])).await.unwrap());
    let mut other = database.session().await;
    let by = database.sql("FORCE INDEX (external_id)", "");
    let four = "external_id IN ('r001','r002','r004','r008')";
    let locks = format!(
        "START TRANSACTION; SELECT id FROM lockhouse_permit_request {by} WHERE {four} FOR UPDATE"
    );
    other.run(&locks).await;
    let ids = format!("SELECT id FROM lockhouse_permit_request WHERE {four}");
    for of in database.session().await.texts(&ids).await {
        let delete = format!(
            "DELETE FROM lockhouse_permit WHERE permit_request_id={of}; \
             DELETE FROM lockhouse_permit_request WHERE id={of}"
        );
        other.run(&delete).await;
    }
    let started = Instant::now();
    for external_id in ["q", "r0", "r000!", "r0010", "r003!", "r007!", "r0080", "s"] {
        granted(
            one(&store, acquire(external_id, &["a", "b"]))
                .await
                .unwrap(),
        );
        one(&store, release(external_id)).await.unwrap().unwrap();
    }
    one(&store, release("live")).await.unwrap().unwrap();
    assert_eq!(store.purge(REQUESTS, 99).await.unwrap(), 5);
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("COMMIT").await;
    assert_eq!(counts(database).await, (9, 18));
}
