//! Gaps between the ids of requests that a locking read at REPEATABLE READ keeps locked.

use std::time::{Duration, Instant};

use lockhouse_core::Footprint;
use lockhouse_core::store::{Batch, Kind};

use crate::database::{Database, acquire, define, granted, id, insist, on_mysql_and_mariadb, one};

on_mysql_and_mariadb! {
    the_gap_that_an_insert_waits_for_is_named,
    the_id_that_another_transaction_is_inserting_is_the_only_one_that_waits,
}

/// P13. One failed INSERT names the gap, whichever row of the batch met it.
async fn the_gap_that_an_insert_waits_for_is_named(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 100)).await.unwrap().unwrap();
    for external_id in ["d", "m"] {
        granted(one(&store, acquire(external_id, &["a"])).await.unwrap());
    }
    let mut other = database.session().await;
    let read = "SELECT * FROM lockhouse_permit_request FORCE INDEX (external_id) \
                WHERE external_id='g' LOCK IN SHARE MODE";
    other
        .run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await;
    other.run(&format!("START TRANSACTION; {read}")).await;

    let asks = ["c", "n", "f", "h", "x"].map(|external_id| acquire(external_id, &["a"]));
    let started = Instant::now();
    let error = store.transact(&Batch::new(asks.into())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
    let locked = error.locked().clone();
    let gap = locked.gaps.first().unwrap();
    assert_eq!(gap.refused(), &id("f"));
    for (external_id, is_in) in [
        ("d", false),
        ("d!", true),
        ("h", true),
        ("lz", true),
        ("m", false),
        ("n", false),
    ] {
        assert_eq!(gap.has(&id(external_id)), is_in, "{external_id}");
    }
    let only_gaps = Footprint {
        gaps: locked.gaps.clone(),
        ..Footprint::default()
    };
    assert_eq!(locked, only_gaps);
    assert_eq!(store.locked(&only_gaps).await.unwrap(), only_gaps);
    for outside in ["c", "n"] {
        granted(one(&store, acquire(outside, &["a"])).await.unwrap());
    }
    other.run("ROLLBACK").await;
    assert!(store.locked(&only_gaps).await.unwrap().is_empty());
    assert!(
        store.request(&id("f")).await.unwrap().is_none(),
        "a look makes none"
    );
    granted(insist(&store, acquire("f", &["a"])).await);
    assert!(store.locked(&only_gaps).await.unwrap().is_empty());
    assert!(store.recount().await.unwrap().findings().is_empty());
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
    assert!(gap.has(&id("g")) && !gap.has(&id("f")) && !gap.has(&id("h")));
    other.run("ROLLBACK").await;
    assert!(store.locked(error.locked()).await.unwrap().is_empty());
}
