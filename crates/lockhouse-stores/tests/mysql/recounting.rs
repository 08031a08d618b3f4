//! Counting anew and setting right.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Store};
use lockhouse_core::{Command, Recounted};
use lockhouse_stores::MySql;

use crate::database::{
    Database, acquire, define, granted, id, insist, name, number, on_both_servers, one, release,
    run, semaphore,
};

on_both_servers! {
    what_is_right_is_counted_as_it_is,
    each_thing_that_is_off_is_found,
    torn_requests_are_named,
    a_count_sees_one_moment_however_much_goes_on,
    a_repair_writes_what_the_permits_say,
    a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile,
}

async fn held(database: &Database) -> MySql {
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

async fn what_is_right_is_counted_as_it_is(database: &Database) {
    let store = held(database).await;
    let recount = store.recount().await.unwrap();
    assert!(recount.findings().is_empty());
    assert!(recount.torn.is_empty());
    let counted = recount.semaphores.iter().map(|counted| {
        let Recounted {
            semaphore,
            live,
            last_fence,
            repeated_fences,
            last_granted_at,
        } = counted;
        let called = semaphore.name.as_str();
        let granted = last_granted_at.is_some();
        (called, *live, *last_fence, *repeated_fences, granted)
    });
    let expected = [
        ("a", 2, 3, 0, true),
        ("b", 1, 1, 0, true),
        ("empty", 0, 0, 0, false),
        ("gone", 0, 0, 0, false),
    ];
    assert_eq!(counted.collect::<Vec<_>>(), expected);
    assert_eq!(
        recount.semaphores[0].semaphore,
        semaphore(&store, "a").await
    );
    assert!(!recount.semaphores[3].semaphore.exists());
    let z = store.request(&id("z")).await.unwrap().unwrap();
    assert_eq!(recount.semaphores[0].last_granted_at, Some(z.created_at));
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
            "UPDATE lockhouse_semaphore SET fence=3,capacity=1 WHERE name='a'",
            &[],
        ),
        (
            "UPDATE lockhouse_semaphore SET updated_at='2020-01-01' WHERE name='a'",
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
        run(&mut session, breaking).await;
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
        run(
            &mut session,
            "CREATE TABLE kept_r AS SELECT * FROM lockhouse_permit_request; \
             CREATE TABLE kept_p AS SELECT * FROM lockhouse_permit",
        )
        .await;
        run(&mut session, breaking).await;
        let torn = store.recount().await.unwrap().torn;
        assert_eq!(torn.len(), 1, "{breaking}: {torn:?}");
        run(
            &mut session,
            "UPDATE lockhouse_permit_request r JOIN kept_r k ON k.id=r.id \
             SET r.state=k.state,r.end_reason=k.end_reason,r.released_at=k.released_at,\
             r.ended_by=k.ended_by; \
             REPLACE INTO lockhouse_permit SELECT * FROM kept_p; DROP TABLE kept_r,kept_p",
        )
        .await;
        assert!(store.recount().await.unwrap().torn.is_empty());
    }
    let many = "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
        WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i+1 FROM n WHERE i<999) \
        SELECT i+1000*j,CONCAT('n',j,'-',LPAD(i,4,'0')),'ACQUIRED',SYSDATE(6) \
        FROM n JOIN (SELECT 1 AS j UNION SELECT 2) m";
    run(&mut session, many).await;
    let torn = store.recount().await.unwrap().torn;
    assert_eq!(torn.len(), 1000);
    assert!(torn.is_sorted());
    assert_eq!(torn[999], id("n2-0001"));
}

async fn a_count_sees_one_moment_however_much_goes_on(database: &Database) {
    let store = held(database).await;
    let tasks = (0..4).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..60 {
                let external_id = format!("{task}-{round}");
                let both = &["a", "b"][..1 + round % 2];
                if insist(&store, acquire(&external_id, both)).await.is_ok() {
                    insist(&store, release(&external_id)).await.unwrap();
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut counts = 0;
    while counts < 20 || tasks.iter().any(|task| !task.is_finished()) {
        counts += 1;
        let findings = store.recount().await.unwrap().findings();
        assert!(findings.is_empty(), "{findings:?}");
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// P2, P7.
async fn a_repair_writes_what_the_permits_say(database: &Database) {
    let store = held(database).await;
    assert_eq!(store.repair(&name("a")).await.unwrap(), None);
    assert_eq!(store.repair(&name("unknown")).await.unwrap(), None);
    assert_eq!(store.repair(&name("empty")).await.unwrap(), None);
    let right = semaphore(&store, "a").await;
    let mut session = database.session().await;
    for (in_use, fence) in [(5, 3), (0, 3), (2, 1), (1, 0)] {
        let off =
            format!("UPDATE lockhouse_semaphore SET in_use={in_use},fence={fence} WHERE name='a'");
        run(&mut session, &off).await;
        let was = store.repair(&name("a")).await.unwrap().unwrap();
        assert_eq!((was.in_use, was.fence), (in_use, fence));
        assert_eq!(semaphore(&store, "a").await, right);
        assert_eq!(store.repair(&name("a")).await.unwrap(), None);
    }
    run(
        &mut session,
        "UPDATE lockhouse_semaphore SET fence=9,in_use=9 WHERE name='a'",
    )
    .await;
    store.repair(&name("a")).await.unwrap().unwrap();
    let ahead = semaphore(&store, "a").await;
    assert_eq!((ahead.in_use, ahead.fence), (2, 9), "fences never go back");
    run(
        &mut session,
        "UPDATE lockhouse_semaphore SET in_use=1 WHERE name='gone'",
    )
    .await;
    assert!(store.repair(&name("gone")).await.unwrap().is_some());
}

async fn a_repair_waits_for_the_lock_and_counts_what_was_committed_meanwhile(database: &Database) {
    let store = held(database).await;
    let mut other = database.session().await;
    let mut observer = database.session().await;
    run(
        &mut other,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
         UPDATE lockhouse_semaphore SET in_use=7 WHERE name='a'; \
         UPDATE lockhouse_permit_request SET state='RELEASED',end_reason='released',\
         released_at=SYSDATE(6) WHERE external_id='z'",
    )
    .await;
    let repair = tokio::spawn({
        let store = store.clone();
        async move { store.repair(&name("a")).await }
    });
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db='{}' \
         AND info LIKE 'SELECT%lockhouse_semaphore%FOR UPDATE' AND id<>CONNECTION_ID()",
        database.name()
    );
    while number(&mut observer, &waiting).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = Instant::now();
    granted(one(&store, acquire("w", &["b"])).await.unwrap());
    assert!(started.elapsed() < Duration::from_secs(3), "others go on");
    run(&mut other, "COMMIT").await;
    let was = repair.await.unwrap().unwrap().unwrap();
    assert_eq!(was.in_use, 7);
    assert_eq!(semaphore(&store, "a").await.in_use, 1);
    assert!(store.recount().await.unwrap().findings().is_empty());
}
