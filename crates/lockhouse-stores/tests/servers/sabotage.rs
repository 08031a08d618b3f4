//! The store that is broken on purpose is broken.

use std::time::Duration;

use lockhouse_core::Refusal;

use crate::database::{Database, acquire, define, granted, name, on_every_server, one};

on_every_server! {
    without_its_locks_a_store_decides_on_what_others_are_changing,
}

async fn without_its_locks_a_store_decides_on_what_others_are_changing(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
    let forgetful = database.store_with("sabotage=no_lock");

    let mut other = database.session().await;
    other
        .run("START TRANSACTION; UPDATE lockhouse_semaphore SET in_use=0")
        .await;
    let decided = tokio::time::timeout(
        Duration::from_secs(2),
        one(&forgetful, acquire("y", &["a"])),
    );
    let outcome = decided.await.unwrap().unwrap();
    assert_eq!(outcome, Err(Refusal::Exhausted(vec![name("a")])));
    other.run("ROLLBACK").await;
}
