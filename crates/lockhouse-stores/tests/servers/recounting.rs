//! Verification and repair.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Due};
use lockhouse_core::{Command, Finding};

use crate::database::{
    Database, Served, acquire, define, granted, id, ids, name, on_every_server, one, release,
    semaphore,
};

on_every_server! {
    each_thing_that_is_off_is_found,
    torn_requests_are_named,
    a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile,
    a_repair_files_requests_so_that_a_refusal_finds_them,
}

async fn held(database: &Database) -> Served {
    let store = database.migrated().await;
    let commands: Vec<Command> = vec![
        define("a", 5),
        define("b", 5),
        define("empty", 0),
        acquire("x", &["a", "b"]),
        acquire("y", &["a"]),
        acquire("z", &["a"]),
        release("y"),
    ];
    for outcome in store.transact(&Batch::new(commands)).await.unwrap() {
        outcome.unwrap();
    }
    one(&store, define("gone", 1)).await.unwrap().unwrap();
    let delete = Command::Delete { name: name("gone") };
    one(&store, delete).await.unwrap().unwrap();
    store
}

async fn each_thing_that_is_off_is_found(database: &Database) {
    let store = held(database).await;
    let mut session = database.session().await;
    for (breaking, promises) in [
        (
            "UPDATE lockhouse_semaphore SET in_use=1 WHERE name='a'",
            &["P2"][..],
        ),
        (
            "UPDATE lockhouse_semaphore SET in_use=2,fence=2 WHERE name='a'",
            &["P7"],
        ),
        (
            "UPDATE lockhouse_semaphore SET fence=4,capacity=1 WHERE name='a'",
            &[],
        ),
        (
            "UPDATE lockhouse_semaphore SET fence=3 WHERE name='a'",
            &["P1"],
        ),
        (
            "UPDATE lockhouse_semaphore SET capacity=9 WHERE name='a'",
            &[],
        ),
        ("UPDATE lockhouse_permit SET fence=2 WHERE fence=3", &["P7"]),
        (
            "UPDATE lockhouse_permit_request SET state='RELEASED'",
            &["P2", "P7", "P2", "P3", "P3"],
        ),
        ("DELETE FROM lockhouse_permit_request", &["P2", "P7", "P2"]),
    ] {
        session.run(breaking).await;
        let found = store.recount().await.unwrap().findings();
        let found: Vec<_> = found.iter().map(|finding| finding.promise).collect();
        assert_eq!(found, promises, "{breaking}");
    }
}

async fn torn_requests_are_named(database: &Database) {
    let store = held(database).await;
    let mut session = database.session().await;
    for breaking in [
        "UPDATE lockhouse_permit_request SET released_at=created_at WHERE external_id='z'",
        "UPDATE lockhouse_permit_request SET end_reason='stale' WHERE external_id='z'",
        "UPDATE lockhouse_permit_request SET ended_by='o' WHERE external_id='z'",
        "UPDATE lockhouse_permit_request SET end_reason=NULL WHERE external_id='y'",
        "UPDATE lockhouse_permit_request SET released_at=NULL WHERE external_id='y'",
        "DELETE FROM lockhouse_permit WHERE fence=2",
    ] {
        session
            .run(
                "CREATE TABLE kept_r AS SELECT * FROM lockhouse_permit_request; \
             CREATE TABLE kept_p AS SELECT * FROM lockhouse_permit",
            )
            .await;
        session.run(breaking).await;
        let torn = store.recount().await.unwrap().torn;
        assert_eq!(torn.len(), 1, "{breaking}: {torn:?}");
        session
            .run(
                "DELETE FROM lockhouse_permit; INSERT INTO lockhouse_permit SELECT * FROM kept_p; \
             UPDATE lockhouse_permit_request SET \
             state=(SELECT k.state FROM kept_r k WHERE k.id=lockhouse_permit_request.id),\
             end_reason=(SELECT k.end_reason FROM kept_r k WHERE k.id=lockhouse_permit_request.id),\
             released_at=(SELECT k.released_at FROM kept_r k \
             WHERE k.id=lockhouse_permit_request.id),\
             ended_by=(SELECT k.ended_by FROM kept_r k WHERE k.id=lockhouse_permit_request.id),\
             only_semaphore_id=(SELECT k.only_semaphore_id FROM kept_r k \
             WHERE k.id=lockhouse_permit_request.id); \
             DROP TABLE kept_r,kept_p",
            )
            .await;
        assert!(store.recount().await.unwrap().torn.is_empty());
    }
    let mut many = Vec::new();
    for (i, j) in (1..1000).flat_map(|i| [(i, 1), (i, 2)]) {
        let clock = database.clock();
        many.push(format!(
            "({},'n{j}-{i:04}','ACQUIRED',{clock})",
            i + 1000 * j
        ));
    }
    let many = format!(
        "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) VALUES {}",
        many.join(",")
    );
    session.run(&many).await;
    let torn = store.recount().await.unwrap().torn;
    assert_eq!(torn.len(), 1000);
    assert!(torn.is_sorted());
    assert_eq!(torn[999], id("n2-0001"));
}

async fn a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile(database: &Database) {
    let store = held(database).await;
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

/// P10. `x` holds two semaphores, and `z` one.
async fn a_repair_files_requests_so_that_a_refusal_finds_them(database: &Database) {
    let store = held(database).await;
    let mut session = database.session().await;
    for misfiled in ["x", "z"] {
        let file = format!(
            "UPDATE lockhouse_permit_request SET only_semaphore_id=99 WHERE external_id='{misfiled}'"
        );
        session.run(&file).await;
        let found = store.recount().await.unwrap().findings();
        let on = |finding: &Finding| finding.semaphore.clone().unwrap().to_string();
        let on: Vec<_> = found
            .iter()
            .map(|f| (f.promise, on(f), f.can_be_repaired))
            .collect();
        let both = [("P10", "a".to_owned(), true), ("P10", "b".to_owned(), true)];
        assert_eq!(on, both[..found.len()], "{misfiled}");
        assert_eq!(found.len(), if misfiled == "x" { 2 } else { 1 });
        let right = semaphore(&store, "a").await;
        assert_eq!(store.repair(&name("a")).await.unwrap(), Some(right));
        assert_eq!(store.repair(&name("a")).await.unwrap(), None);
        assert!(store.recount().await.unwrap().findings().is_empty());
    }
    session
        .run(&format!(
            "UPDATE lockhouse_permit_request SET expires_at={} WHERE external_id='z'",
            database.clock()
        ))
        .await;
    let on = [name("a")];
    let due = store.due(Due::Lapsed { on: Some(&on) }, 9).await.unwrap();
    assert_eq!(ids(&due), ["z"]);
}
