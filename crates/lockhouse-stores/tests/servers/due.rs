//! Finding due requests by a read without locks.

use std::time::{Duration, Instant};

use lockhouse_core::store::Due;

use crate::database::{
    Database, Served, acquire, acquire_for, define, heartbeat, insist_on, name, on_every_server,
};

on_every_server! {
    looking_for_what_is_due_waits_for_no_lock,
}

const LAPSED: Due<'_> = Due::Lapsed { on: None };

/// On `a`, on `b` and on both: one that has expired, one of a silent owner, and one that is both.
async fn lapsed(database: &Database) -> Served {
    let store = database.migrated().await;
    let mut commands = vec![define("a", 999), define("b", 999), define("c", 999)];
    for (of, on) in [("a", &["a"][..]), ("b", &["b"]), ("ab", &["a", "b"])] {
        commands.extend([
            acquire_for(format!("{of}-expired"), on, "heard", Some(1)),
            acquire_for(format!("{of}-silent"), on, "silent", None),
            acquire_for(format!("{of}-both"), on, "silent", Some(1)),
        ]);
    }
    commands.extend([heartbeat("heard", 60_000), heartbeat("silent", 1)]);
    commands.push(acquire("x", &["c"]));
    for outcome in insist_on(&store, commands).await {
        outcome.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    store
}

async fn looking_for_what_is_due_waits_for_no_lock(database: &Database) {
    let store = lapsed(database).await;
    let mut other = database.session().await;
    other
        .run(
            "START TRANSACTION; UPDATE lockhouse_semaphore SET fence=fence+1; \
         UPDATE lockhouse_permit_request SET expires_at='2020-01-01'; \
         UPDATE lockhouse_permit SET fence=fence+1; \
         UPDATE lockhouse_owner_session SET expires_at='2020-01-01'",
        )
        .await;
    let started = Instant::now();
    let on = [name("a"), name("c")];
    assert_eq!(store.due(LAPSED, 99).await.unwrap().len(), 9);
    let on = Due::Lapsed { on: Some(&on) };
    assert_eq!(store.due(on, 99).await.unwrap().len(), 6);
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("ROLLBACK").await;
}
