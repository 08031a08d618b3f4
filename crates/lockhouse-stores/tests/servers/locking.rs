//! Locks: what waits for what, for how long, and in which order.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Kind};
use lockhouse_core::{Command, Footprint, Outcome, Refusal, Timestamp};
use lockhouse_stores::open;

use crate::database::{
    Database, Served, acquire, acquire_for, define, granted, heartbeat, id, insist, insist_on,
    name, on_every_server, one, owner, release, semaphore,
};
use crate::proxy::{Fault, Proxy};

on_every_server! {
    a_lock_wait_times_out_after_half_a_second_and_names_the_locked_rows,
    locked_rows_are_found_without_waiting,
    the_clock_is_read_after_the_locks_are_held,
    commits_during_a_lock_wait_are_seen_by_the_decision,
    a_semaphore_that_appears_during_a_lock_wait_spoils_nothing,
    after_an_error_the_next_call_on_the_connection_starts_over,
    locks_on_other_rows_are_not_waited_for,
    new_requests_on_different_semaphores_do_not_get_in_each_others_way,
    many_tasks_over_three_semaphores_in_any_order_do_not_deadlock,
    a_batch_of_several_tls_records_does_not_stall,
    reads_wait_for_no_lock,
    a_call_that_nobody_waits_for_is_still_done,
    the_locks_of_a_client_that_froze_go_within_seconds,
}

const LOCK: &str = "START TRANSACTION; SELECT * FROM lockhouse_semaphore WHERE name=";

/// P13. And once nobody is in the way the semaphore is as it was.
async fn a_lock_wait_times_out_after_half_a_second_and_names_the_locked_rows(database: &Database) {
    let store = database.migrated().await;
    for semaphore in ["a", "b"] {
        one(&store, define(semaphore, 1)).await.unwrap().unwrap();
    }
    let mut other = database.session().await;
    other.run(&format!("{LOCK}'b' FOR UPDATE")).await;

    let started = Instant::now();
    let both = Batch::new(vec![acquire("x", &["a"]), acquire("y", &["b"])]);
    let error = store.transact(&both).await.unwrap_err();
    let waited = started.elapsed();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert_eq!(*error.locked(), on_semaphores(&["b"]));
    let half_a_second = Duration::from_millis(450)..Duration::from_secs(3);
    assert!(half_a_second.contains(&waited), "{waited:?}");
    granted(one(&store, acquire("x", &["a"])).await.unwrap());

    other.run("ROLLBACK").await;
    assert!(granted(insist(&store, acquire("y", &["b"])).await).1);
}

/// P13.
async fn locked_rows_are_found_without_waiting(database: &Database) {
    let store = database.migrated().await;
    for semaphore in ["a", "b"] {
        one(&store, define(semaphore, 9)).await.unwrap().unwrap();
    }
    for semaphore in ["a", "b"] {
        one(&store, acquire(semaphore, &["a", "b"]))
            .await
            .unwrap()
            .unwrap();
        one(&store, heartbeat(semaphore, 60_000))
            .await
            .unwrap()
            .unwrap();
    }
    let mut rows = on_semaphores(&["a", "b", "missing"]);
    rows.requests = ["a", "b", "missing"].map(id).into();
    rows.owners = ["a", "b", "missing"].map(owner).into();
    let started = Instant::now();
    assert!(store.locked(&rows).await.unwrap().is_empty());
    let usual = started.elapsed();
    assert!(
        store
            .locked(&Footprint::default())
            .await
            .unwrap()
            .is_empty()
    );

    let mut other = database.session().await;
    let share = database.sql("LOCK IN SHARE MODE", "FOR SHARE");
    let by_key = |table, index: &'static str, key| {
        let index = match database.sql(index, "") {
            "" => String::new(),
            index => format!("FORCE INDEX ({index})"),
        };
        format!("SELECT * FROM {table} {index} WHERE {key}='b' {share}")
    };
    other.run("START TRANSACTION").await;
    other
        .run(&by_key("lockhouse_semaphore", "name", "name"))
        .await;
    let requests = by_key("lockhouse_permit_request", "external_id", "external_id");
    other.run(&requests).await;
    other
        .run(&by_key("lockhouse_owner_session", "PRIMARY", "owner"))
        .await;
    let mut locked = on_semaphores(&["b"]);
    locked.requests = [id("b")].into();
    locked.owners = [owner("b")].into();
    let started = Instant::now();
    assert_eq!(store.locked(&rows).await.unwrap(), locked);
    let took = started.elapsed();
    assert!(
        took < usual + Duration::from_millis(450),
        "{took:?}, with nothing locked {usual:?}"
    );
    other.run("ROLLBACK").await;
    assert!(store.locked(&rows).await.unwrap().is_empty());
}

fn on_semaphores(names: &[&str]) -> Footprint {
    Footprint {
        semaphores: names.iter().map(|called| name(called)).collect(),
        ..Footprint::default()
    }
}

/// P8.
async fn the_clock_is_read_after_the_locks_are_held(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let (mut other, mut observer) = (database.session().await, database.session().await);
    other.run(&format!("{LOCK}'a' FOR UPDATE")).await;

    let waiting = tokio::spawn({
        let store = store.clone();
        async move { insist(&store, acquire("x", &["a"])).await }
    });
    database.lock_waits(&mut observer, 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let released = database.sql(
        "SELECT UTC_TIMESTAMP(6)",
        "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
    );
    let released = other.text(released).await;
    other.run("COMMIT").await;

    let (request, _) = granted(waiting.await.unwrap());
    let released: Timestamp = (released.replace(' ', "T") + "Z").parse().unwrap();
    assert!(
        request.created_at >= released,
        "{} before {released}",
        request.created_at
    );
}

/// P1, P5. A snapshot that is older than the lock would show the last permit as free, and the
/// request as unknown.
async fn commits_during_a_lock_wait_are_seen_by_the_decision(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 2)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
    let (mut other, mut observer) = (database.session().await, database.session().await);
    other.run(&format!("{LOCK}'a' FOR UPDATE")).await;
    let batch = ["x", "y", "z"].map(|external_id| acquire(external_id, &["a"]));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { insist_on(&store, batch.into()).await }
    });
    database.lock_waits(&mut observer, 1).await;
    let clock = database.clock();
    other
        .run(&format!(
            "UPDATE lockhouse_semaphore SET in_use=2,fence=2; \
             INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
             VALUES (1,'y','ACQUIRED',{clock}); \
             INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,count,fence) \
             SELECT 1,id,1,2 FROM lockhouse_semaphore; COMMIT"
        ))
        .await;

    let mut outcomes = waiting.await.unwrap().into_iter();
    let mut next = || outcomes.next().unwrap();
    assert!(!granted(next()).1);
    let (request, now) = granted(next());
    assert_eq!((request.permits[0].fence, now), (2, false));
    assert_eq!(next(), Err(Refusal::Exhausted(vec![name("a")])));
    assert!(store.recount().await.unwrap().findings().is_empty());
}

/// A statement that locks a row sees rows from before its wait, and not rows that appeared during
/// it.
async fn a_semaphore_that_appears_during_a_lock_wait_spoils_nothing(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let (mut other, mut observer) = (database.session().await, database.session().await);
    other.run(&format!("{LOCK}'a' FOR UPDATE")).await;
    let batch = [acquire("x", &["a"]), acquire_for("y", &["b"], "o", Some(1))];
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { insist_on(&store, batch.into()).await }
    });
    database.lock_waits(&mut observer, 1).await;
    one(&store, define("b", 1)).await.unwrap().unwrap();
    let soon_over = acquire_for("y", &["b"], "o", Some(1));
    granted(one(&store, soon_over).await.unwrap());
    other.run("COMMIT").await;

    let outcomes = waiting.await.unwrap();
    granted(outcomes[0].clone());
    let ended = matches!(outcomes[1], Err(Refusal::RequestEnded { .. }));
    assert!(ended, "{:?}", outcomes[1]);
    assert_eq!(semaphore(&store, "b").await.in_use, 0);
}

async fn after_an_error_the_next_call_on_the_connection_starts_over(database: &Database) {
    database.migrated().await;
    let store = database.store_with("connections=1");
    one(&store, define("a", 9)).await.unwrap().unwrap();
    let mut other = database.session().await;
    for (table, command) in [
        ("lockhouse_permit", acquire("x", &["a"])),
        ("lockhouse_capacity_change", define("a", 8)),
    ] {
        other
            .run(&format!("ALTER TABLE {table} RENAME TO away"))
            .await;
        let error = one(&store, command.clone()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        other
            .run(&format!("ALTER TABLE away RENAME TO {table}"))
            .await;
        one(&store, command).await.unwrap().unwrap();
    }
    assert!(store.recount().await.unwrap().findings().is_empty());
}

async fn locks_on_other_rows_are_not_waited_for(database: &Database) {
    let store = database.migrated().await;
    for semaphore in ["a", "b", "c"] {
        one(&store, define(semaphore, 9)).await.unwrap().unwrap();
    }
    granted(one(&store, acquire("m", &["b"])).await.unwrap());

    // All that is to do with "b" and with "m" is locked, so is a request that is not there yet.
    let mut other = database.session().await;
    let lock_all = format!(
        "{LOCK}'b' FOR UPDATE; \
         SELECT * FROM lockhouse_permit_request WHERE external_id='m' FOR UPDATE; \
         SELECT * FROM lockhouse_permit FOR UPDATE; \
         INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
         VALUES (1,'o','ACQUIRED',{})",
        database.clock()
    );
    other.run(&lock_all).await;

    let started = Instant::now();
    granted(one(&store, acquire("l", &["a"])).await.unwrap());
    granted(one(&store, acquire("n", &["a", "c"])).await.unwrap());
    granted(one(&store, acquire("p", &["c"])).await.unwrap());
    one(&store, release("l")).await.unwrap().unwrap();
    one(&store, release("n")).await.unwrap().unwrap();
    one(&store, define("c", 10)).await.unwrap().unwrap();
    one(&store, define("bb", 1)).await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("ROLLBACK").await;
}

/// Gap locks would make them deadlock.
async fn new_requests_on_different_semaphores_do_not_get_in_each_others_way(database: &Database) {
    let store = database.migrated().await;
    let tasks = (0..16).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            let own = format!("own-{task}");
            insist(&store, define(&own, 100)).await.unwrap();
            for round in 0..20 {
                let batch = (0..3).map(|i| acquire(format!("{i}-{round}-{task}"), &[&own]));
                let batch = Batch::new(batch.collect());
                for outcome in store.transact(&batch).await.unwrap() {
                    granted(outcome);
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// The outcome of `command` from a database whose queue of a row may be longer than a lock wait lasts, and which may be
/// slow. A deadlock is a failure.
async fn queued(store: &Served, command: Command) -> Outcome {
    loop {
        match one(store, command.clone()).await {
            Err(error) if error.is_transient() && error.kind() != Kind::Conflict => {}
            outcome => return outcome.unwrap(),
        }
    }
}

/// P6. A client would try again after a deadlock, and so hide it.
async fn many_tasks_over_three_semaphores_in_any_order_do_not_deadlock(database: &Database) {
    let store = database.migrated().await;
    let semaphores = ["a", "b", "c"];
    for semaphore in semaphores {
        one(&store, define(semaphore, 100)).await.unwrap().unwrap();
    }
    let tasks = (0..16).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let mut asked = semaphores;
                fastrand::shuffle(&mut asked);
                let external_id = format!("{task}-{round}");
                let asked = &asked[..2 + round % 2];
                granted(queued(&store, acquire(&external_id, asked)).await);
                queued(&store, release(&external_id)).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for called in semaphores {
        assert_eq!(semaphore(&store, called).await.in_use, 0);
    }
}

/// A driver that leaves TCP_NODELAY off waits 40 ms for each.
async fn a_batch_of_several_tls_records_does_not_stall(database: &Database) {
    let store = database.migrated().await;
    let unknown = |count| (0..count).map(|i| release(format!("{i:0200}"))).collect();
    let (small, large) = (Batch::new(unknown(1)), Batch::new(unknown(25)));
    let (mut small_took, mut large_took) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        for (batch, took) in [(&small, &mut small_took), (&large, &mut large_took)] {
            let started = Instant::now();
            store.transact(batch).await.unwrap();
            took.push(started.elapsed());
        }
    }
    small_took.sort();
    large_took.sort();
    let more = large_took[4].saturating_sub(small_took[4]);
    assert!(more < Duration::from_millis(35), "{large_took:?}");
}

async fn reads_wait_for_no_lock(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
    let mut other = database.session().await;
    other.run(&format!("{LOCK}'a' FOR UPDATE")).await;
    other
        .run("UPDATE lockhouse_permit_request SET owner='nobody'")
        .await;

    let started = Instant::now();
    semaphore(&store, "a").await;
    let request = store.request(&id("x")).await.unwrap().unwrap();
    assert_eq!(request.owner, None);
    store.history(&name("a"), 10).await.unwrap();
    store.ready().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("ROLLBACK").await;
}

async fn a_call_that_nobody_waits_for_is_still_done(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let (mut other, mut observer) = (database.session().await, database.session().await);
    other.run(&format!("{LOCK}'a' FOR UPDATE")).await;

    let call = one(&store, acquire("x", &["a"]));
    let gone = tokio::time::timeout(Duration::from_millis(50), call).await;
    assert!(gone.is_err());
    database.lock_waits(&mut observer, 1).await;
    other.run("ROLLBACK").await;

    while store.request(&id("x")).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(semaphore(&store, "a").await.in_use, 1);
}

/// P10: no server tells a client that froze, or whose link is dead, from one that thinks.
async fn the_locks_of_a_client_that_froze_go_within_seconds(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let proxy = Proxy::to(database.address());
    let in_the_clear = database.sql("ssl-mode=disabled", "sslmode=disable");
    let url = database.url(database.admin(), proxy.address(), in_the_clear);
    let frozen = open(&url).unwrap();
    proxy.at(";COMMIT", Fault::Freeze);
    let freezing = tokio::spawn(async move { one(&frozen, acquire("x", &["a"])).await });
    let started = Instant::now();
    while !proxy.is_done() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    granted(insist(&store, acquire("y", &["a"])).await);
    let took = started.elapsed();
    let expected = Duration::from_secs(3)..Duration::from_millis(8_500);
    assert!(expected.contains(&took), "{took:?}");
    assert!(freezing.await.unwrap().unwrap_err().maybe_applied());
}
