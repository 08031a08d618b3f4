//! Gaps between rows that a locking read at REPEATABLE READ keeps locked.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Kind};
use lockhouse_core::{Command, Footprint, Key, Reply};

use crate::database::{
    Database, Served, acquire, define, granted, heartbeat, id, insist, name, on_mysql_and_mariadb,
    one, owner, ttl,
};

on_mysql_and_mariadb! {
    the_gap_that_an_insert_waits_for_is_named,
    a_gap_between_names_of_semaphores_is_named,
    a_gap_between_owners_with_sessions_is_named,
    the_id_that_another_transaction_is_inserting_is_the_only_one_that_waits,
}

/// P13. One failed INSERT names the gap, whichever row of the batch met it.
async fn the_gap_that_an_insert_waits_for_is_named(database: &Database) {
    let read = "SELECT * FROM lockhouse_permit_request FORCE INDEX (external_id) \
                WHERE external_id='g' LOCK IN SHARE MODE";
    let (make, key) = (
        |at: &str| acquire(at, &["a"]),
        |at: &str| Key::Request(id(at)),
    );
    let store = locked_gap(database, read, make, key).await;
    let unmade = store.request(&id("f")).await.unwrap();
    assert!(unmade.is_none(), "a look makes none");
    granted(insist(&store, make("f")).await);
    assert!(store.recount().await.unwrap().findings().is_empty());
}

async fn a_gap_between_names_of_semaphores_is_named(database: &Database) {
    let read = "SELECT * FROM lockhouse_semaphore FORCE INDEX (name) WHERE name='g' FOR UPDATE";
    let key = |at: &str| Key::Semaphore(name(at));
    let store = locked_gap(database, read, |at| define(at, 1), key).await;
    let unmade = store.semaphore(&name("f")).await.unwrap();
    assert!(unmade.is_none(), "a look makes none");
    insist(&store, define("f", 1)).await.unwrap();
}

async fn a_gap_between_owners_with_sessions_is_named(database: &Database) {
    let read = "SELECT * FROM lockhouse_owner_session FORCE INDEX (PRIMARY) \
                WHERE owner='g' FOR UPDATE";
    let beat = |at: &str| heartbeat(at, 60_000);
    let key = |at: &str| Key::Session(owner(at));
    let store = locked_gap(database, read, beat, key).await;
    let Ok(Reply::Heard { session, began }) = insist(&store, beat("f")).await else {
        panic!("a heartbeat begins a session");
    };
    assert!(began, "a look makes none");
    assert_eq!(session.ttl, ttl(60_000));
}

/// Makes the rows "d" and "m", and has another transaction lock the gap between them by `read`.
/// Returns the store once the gap is free again.
async fn locked_gap(
    database: &Database,
    read: &str,
    make: impl Fn(&str) -> Command,
    key: impl Fn(&str) -> Key,
) -> Served {
    let store = database.migrated().await;
    one(&store, define("a", 100)).await.unwrap().unwrap();
    for end in ["d", "m"] {
        one(&store, make(end)).await.unwrap().unwrap();
    }
    let mut other = database.session().await;
    other
        .run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await;
    other.run(&format!("START TRANSACTION; {read}")).await;

    let batch = Batch::new(["c", "n", "f", "h", "x"].map(&make).into());
    let started = Instant::now();
    let error = store.transact(&batch).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
    let locked = error.locked().clone();
    let gap = locked.gaps.first().unwrap();
    assert_eq!(gap.refused(), &key("f"));
    for (at, is_in) in [
        ("d", false),
        ("d!", true),
        ("h", true),
        ("lz", true),
        ("m", false),
        ("n", false),
    ] {
        assert_eq!(gap.has(&key(at)), is_in, "{at}");
    }
    let only_gaps = Footprint {
        gaps: locked.gaps.clone(),
        ..Footprint::default()
    };
    assert_eq!(locked, only_gaps);
    assert_eq!(store.locked(&only_gaps).await.unwrap(), only_gaps);
    for outside in ["c", "n"] {
        one(&store, make(outside)).await.unwrap().unwrap();
    }
    other.run("ROLLBACK").await;
    assert!(store.locked(&only_gaps).await.unwrap().is_empty());
    store
}

async fn the_id_that_another_transaction_is_inserting_is_the_only_one_that_waits(
    database: &Database,
) {
    let store = database.migrated().await;
    one(&store, define("a", 100)).await.unwrap().unwrap();
    let mut other = database.session().await;
    let insert = "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
                  VALUES (1,'g','ACQUIRED',UTC_TIMESTAMP(6))";
    other.run(&format!("START TRANSACTION; {insert}")).await;
    let asks = ["f", "g", "h"].map(|external_id| acquire(external_id, &["a"]));
    let error = store.transact(&Batch::new(asks.into())).await.unwrap_err();
    let gap = error.locked().gaps.first().unwrap();
    for (external_id, is_in) in [("f", false), ("g", true), ("h", false)] {
        assert_eq!(gap.has(&Key::Request(id(external_id))), is_in);
    }
    other.run("ROLLBACK").await;
    assert!(store.locked(error.locked()).await.unwrap().is_empty());
}
