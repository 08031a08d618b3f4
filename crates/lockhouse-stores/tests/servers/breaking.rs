//! Broken connections, servers and wires. An error says whether the batch was applied (P9).

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockhouse_core::Reply;
use lockhouse_core::store::Kind;
use lockhouse_stores::open;

use crate::database::{
    Database, Served, Server, acquire, define, granted, id, insist, on_every_server, one, release,
    semaphore,
};
use crate::proxy::{Fault, Proxy};
use crate::session::Session;

on_every_server! {
    connections_that_are_killed_all_the_time_apply_nothing_by_halves,
    a_restart_costs_one_attempt_however_many_connections_were_idle,
    a_connection_that_broke_while_idle_costs_nothing,
    a_wire_that_is_cut_before_the_commit_applied_nothing,
    a_wire_that_is_cut_around_the_commit_is_unknown,
    a_frozen_connection_fails_within_10_s,
}

async fn kill_all(database: &Database, killer: &mut Session) {
    let others = database.sql(
        "SELECT CAST(id AS CHAR) FROM information_schema.processlist \
         WHERE db=DATABASE() AND id<>CONNECTION_ID()",
        "SELECT pid FROM pg_stat_activity WHERE datname=current_database() \
         AND backend_type='client backend' AND pid<>pg_backend_pid()",
    );
    for other in killer.texts(others).await {
        let kill = match database.server {
            Server::Postgres => format!("SELECT pg_terminate_backend({other})"),
            Server::MySql | Server::MariaDb => format!("KILL CONNECTION {other}"),
        };
        // It may have gone by itself.
        let _ = killer.try_run(&kill).await;
    }
}

/// P2, P5, P9.
async fn connections_that_are_killed_all_the_time_apply_nothing_by_halves(database: &Database) {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let store = database.migrated().await;
    one(&store, define("a", 100)).await.unwrap().unwrap();
    one(&store, define("b", 100)).await.unwrap().unwrap();
    let mut killer = database.session().await;
    let done = Arc::new(AtomicBool::new(false));

    let tasks = (0..TASKS).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let external_id = format!("{task}-{round}");
                granted(insist(&store, acquire(&external_id, &["a", "b"])).await);
                insist(&store, release(&external_id)).await.unwrap();
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let work = tokio::spawn({
        let done = Arc::clone(&done);
        async move {
            for task in tasks {
                task.await.unwrap();
            }
            done.store(true, Ordering::Release);
        }
    });
    while !done.load(Ordering::Acquire) && !work.is_finished() {
        kill_all(database, &mut killer).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    work.await.unwrap();

    let store = database.store();
    for called in ["a", "b"] {
        let semaphore = semaphore(&store, called).await;
        assert_eq!((semaphore.in_use, semaphore.fence), (0, TASKS * ROUNDS));
    }
    let mut session = database.session().await;
    let requests = "SELECT COUNT(*) FROM lockhouse_permit_request WHERE state='RELEASED'";
    assert_eq!(session.number(requests).await, TASKS * ROUNDS);
    let permits = "SELECT COUNT(*) FROM lockhouse_permit p JOIN lockhouse_permit_request r \
        ON r.id=p.permit_request_id WHERE r.state='RELEASED'";
    assert_eq!(session.number(permits).await, 2 * TASKS * ROUNDS);
}

/// Opens `count` connections of `store`, all of which are idle after it.
async fn warm(database: &Database, store: &Served, count: u64) {
    let (mut other, mut observer) = (database.session().await, database.session().await);
    other
        .run("START TRANSACTION; SELECT * FROM lockhouse_semaphore FOR UPDATE")
        .await;
    let calls = (0..count).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { insist(&store, define("a", 1)).await })
    });
    let calls: Vec<_> = calls.collect();
    database.lock_waits(&mut observer, count).await;
    other.run("ROLLBACK").await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

async fn a_restart_costs_one_attempt_however_many_connections_were_idle(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let mut killer = database.session().await;
    warm(database, &store, 8).await;
    kill_all(database, &mut killer).await;

    if let Err(error) = one(&store, acquire("x", &["a"])).await {
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
    for _ in 0..8 {
        granted(one(&store, acquire("x", &["a"])).await.unwrap());
    }
}

async fn a_connection_that_broke_while_idle_costs_nothing(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let mut killer = database.session().await;
    warm(database, &store, 4).await;
    kill_all(database, &mut killer).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
}

async fn wired(database: &Database) -> (Proxy, Served) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let proxy = Proxy::to(database.address());
    let in_the_clear = database.sql("ssl-mode=disabled", "sslmode=disable");
    let url = database.url(database.admin(), proxy.address(), in_the_clear);
    (proxy, open(&url).unwrap())
}

fn begin(database: &Database) -> &'static str {
    database.sql("START TRANSACTION", "BEGIN")
}

async fn a_wire_that_is_cut_before_the_commit_applied_nothing(database: &Database) {
    let (proxy, store) = wired(database).await;
    let begin = begin(database);
    let session = database.sql("max_allowed_packet", "server_encoding");
    for (statement, fault) in [
        (begin, Fault::CutBefore),
        (begin, Fault::CutAfter),
        (session, Fault::CutAfter),
    ] {
        proxy.at(statement, fault);
        let error = one(&store, acquire("x", &["a"])).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert_eq!(database.store().request(&id("x")).await.unwrap(), None);
    }
    assert!(granted(one(&store, acquire("x", &["a"])).await.unwrap()).1);
}

/// P9.
async fn a_wire_that_is_cut_around_the_commit_is_unknown(database: &Database) {
    let (proxy, store) = wired(database).await;
    proxy.at(";COMMIT", Fault::CutBefore);
    let error = one(&store, acquire("x", &["a"])).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    let (first, now) = granted(insist(&store, acquire("x", &["a"])).await);
    assert!(now, "the server never got it");

    proxy.at(";COMMIT", Fault::CutAfter);
    let error = one(&store, release("x")).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    let Ok(Reply::Ended { request, now, .. }) = insist(&store, release("x")).await else {
        panic!("ended requests stay ended")
    };
    assert!(!now, "the server had done it");
    assert_eq!(request.permits, first.permits);
    assert_eq!(semaphore(&store, "a").await.in_use, 0);
}

async fn a_frozen_connection_fails_within_10_s(database: &Database) {
    let (proxy, store) = wired(database).await;
    for (statement, kind) in [
        (";COMMIT", Kind::Unknown),
        (begin(database), Kind::Unavailable),
    ] {
        proxy.at(statement, Fault::Freeze);
        let started = Instant::now();
        let error = one(&store, acquire("x", &["a"])).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    insist(&store, acquire("x", &["a"])).await.unwrap();
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_fails_within_10_s() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["mysql", "postgres"] {
        let store = open(&format!("{scheme}://root@{address}/lockhouse")).unwrap();
        let started = Instant::now();
        let error = one(&store, acquire("x", &["a"])).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(error.to_string().contains("no answer within 3s"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_closed_port_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["mysql", "postgres"] {
        let store = open(&format!("{scheme}://root@{address}/lockhouse")).unwrap();
        let started = Instant::now();
        let error = store.ready().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        let told = error.to_string();
        assert!(
            told.contains(&address.to_string()) && told.contains("refused"),
            "{told}"
        );
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
