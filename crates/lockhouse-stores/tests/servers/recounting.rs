//! Repair beside other calls.

use std::time::{Duration, Instant};

use crate::database::{
    Database, acquire, define, granted, insist_on, name, on_every_server, one, semaphore,
};

on_every_server! {
    a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile,
}

async fn a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile(database: &Database) {
    let store = database.migrated().await;
    let commands = [
        define("a", 5),
        define("b", 5),
        acquire("x", &["a", "b"]),
        acquire("z", &["a"]),
    ];
    for outcome in insist_on(&store, commands.into()).await {
        outcome.unwrap();
    }
    let mut other = database.session().await;
    let mut observer = database.session().await;
    other
        .run(
            "START TRANSACTION; \
         UPDATE lockhouse_semaphore SET in_use=7 WHERE name='a'; \
         UPDATE lockhouse_permit_request SET state='RELEASED',end_reason='released',\
         released_at=created_at WHERE external_id='z'",
        )
        .await;
    let repair = tokio::spawn({
        let store = store.clone();
        async move { store.repair(&name("a")).await }
    });
    database.lock_waits(&mut observer, 1).await;
    let started = Instant::now();
    granted(one(&store, acquire("w", &["b"])).await.unwrap());
    assert!(started.elapsed() < Duration::from_secs(3), "others go on");
    other.run("COMMIT").await;
    let was = repair.await.unwrap().unwrap().unwrap();
    assert_eq!(was.in_use, 7);
    assert_eq!(semaphore(&store, "a").await.in_use, 1);
    assert!(store.recount().await.unwrap().findings().is_empty());
}
