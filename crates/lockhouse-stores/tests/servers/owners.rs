//! Owners: their sessions, what they hold, and who ended it.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Kind, Page};
use lockhouse_core::{Cause, Command, EndReason, Owner, Reply};

use crate::database::{
    Database, acquire, acquire_for, define, granted, heartbeat, id, insist, on_every_server, one,
    owner, release,
};

on_every_server! {
    a_heartbeat_is_kept_and_the_next_one_pushes_it,
    a_silent_owner_is_found_under_the_locks,
    a_goodbye_deletes_the_session,
    who_ended_a_request_is_kept,
    heartbeats_at_once_of_the_same_owners_are_all_heard,
    a_session_is_locked_alone,
    owners_of_live_requests_are_listed_in_byte_order,
}

fn silent(external_id: &str, of: &str) -> Command {
    Command::End {
        external_id: id(external_id),
        cause: Cause::OwnerSilent { owner: owner(of) },
    }
}

fn goodbye(of: &str) -> Command {
    Command::Goodbye { owner: owner(of) }
}

async fn a_heartbeat_is_kept_and_the_next_one_pushes_it(database: &Database) {
    let store = database.migrated().await;
    let mut session = database.session().await;
    let mut last = None;
    for ttl_ms in [60_000, 30_000, 90_000] {
        let Ok(Reply::Heard { session: heard, .. }) =
            one(&store, heartbeat("é", ttl_ms)).await.unwrap()
        else {
            panic!("a heartbeat is heard")
        };
        let rows = "SELECT COUNT(*) FROM lockhouse_owner_session";
        let row = format!(
            "{rows} WHERE owner='é' AND ttl_ms={ttl_ms} AND expires_at={}",
            database.time(heard.expires_at)
        );
        assert_eq!(session.number(&row).await, 1);
        assert_eq!(session.number(rows).await, 1);
        assert_ne!(Some(heard.expires_at), last);
        last = Some(heard.expires_at);
    }
}

async fn a_silent_owner_is_found_under_the_locks(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 9)).await.unwrap().unwrap();
    granted(
        one(&store, acquire_for("x", &["a"], "o", None))
            .await
            .unwrap(),
    );
    let ended_now = async |command| match one(&store, command).await.unwrap() {
        Ok(Reply::Ended { now, .. }) => now,
        other => panic!("{other:?}"),
    };
    assert!(!ended_now(silent("x", "o")).await, "it has no session");
    one(&store, heartbeat("o", 60_000)).await.unwrap().unwrap();
    assert!(!ended_now(silent("x", "o")).await, "it was heard");
    lapse(database, "o").await;
    assert!(ended_now(silent("x", "o")).await);
    let request = store.request(&id("x")).await.unwrap().unwrap();
    assert_eq!(request.end_reason(), Some(EndReason::OwnerDead));
}

async fn lapse(database: &Database, of: &str) {
    let lapse =
        format!("UPDATE lockhouse_owner_session SET expires_at='2020-01-01' WHERE owner='{of}'");
    database.session().await.run(&lapse).await;
}

async fn a_goodbye_deletes_the_session(database: &Database) {
    let store = database.migrated().await;
    let beats = ["a", "b", "c"].map(|of| heartbeat(of, 1000));
    store.transact(&Batch::new(beats.into())).await.unwrap();
    let batch = vec![goodbye("a"), goodbye("c"), goodbye("d"), heartbeat("e", 1)];
    let outcomes = store.transact(&Batch::new(batch)).await.unwrap();
    let gone = |now| Ok(Reply::Gone { now });
    assert_eq!(outcomes[..3], [gone(true), gone(true), gone(false)]);
    let left = "SELECT owner FROM lockhouse_owner_session ORDER BY owner";
    assert_eq!(database.session().await.texts(left).await, ["b", "e"]);
}

async fn who_ended_a_request_is_kept(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 9)).await.unwrap().unwrap();
    let by = [None, Some(owner("ops")), Some(owner("Ops"))];
    let ends = (0..).zip(&by).map(|(i, by)| Command::End {
        external_id: id(format!("x{i}")),
        cause: Cause::Forced { by: by.clone() },
    });
    let acquires = (0..3).map(|i| acquire(format!("x{i}"), &["a"]));
    store
        .transact(&Batch::new(acquires.collect()))
        .await
        .unwrap();
    store
        .transact(&Batch::new(ends.clone().collect()))
        .await
        .unwrap();
    // In the same batch, it is inserted as ended.
    let Some(Command::End { cause, .. }) = ends.last() else {
        unreachable!("there are three")
    };
    let at_once = Command::End {
        external_id: id("x3"),
        cause,
    };
    let batch = Batch::new(vec![acquire("x3", &["a"]), at_once]);
    store.transact(&batch).await.unwrap();
    for (i, by) in by.iter().chain(by.last()).enumerate() {
        let request = store.request(&id(format!("x{i}"))).await.unwrap().unwrap();
        assert_eq!(request.end_reason(), Some(EndReason::Forced));
        assert_eq!(&request.ended_by, by);
        let loaded = one(&store, release(format!("x{i}"))).await.unwrap();
        let Ok(Reply::Ended {
            request: read,
            now: false,
            decided_at,
        }) = loaded
        else {
            panic!("{loaded:?}");
        };
        assert_eq!(read, request);
        assert!(decided_at > request.released_at().unwrap());
    }
}

async fn heartbeats_at_once_of_the_same_owners_are_all_heard(database: &Database) {
    let store = database.migrated().await;
    let tasks = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let mut owners: Vec<_> = (0..12).map(|i| format!("{round}-{i}")).collect();
                fastrand::shuffle(&mut owners);
                let beats = owners[..8].iter().map(|of| heartbeat(of, 60_000));
                let batch = Batch::new(beats.collect());
                let outcomes = loop {
                    match store.transact(&batch).await {
                        Ok(outcomes) => break outcomes,
                        // Those who are new are not locked before they are inserted.
                        Err(error) => {
                            // Two that insert one row can deadlock, or time out before that is found.
                            let may_be = [Kind::Conflict, Kind::Locked];
                            assert!(may_be.contains(&error.kind()), "{error}");
                        }
                    }
                };
                assert!(outcomes.iter().all(Result::is_ok));
                insist(&store, goodbye(&owners[0])).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn a_session_is_locked_alone(database: &Database) {
    let store = database.migrated().await;
    for of in ["a", "b", "c"] {
        one(&store, heartbeat(of, 1000)).await.unwrap().unwrap();
    }
    let mut other = database.session().await;
    other
        .run(
            "START TRANSACTION; SELECT * FROM lockhouse_owner_session WHERE owner='b' FOR UPDATE; \
         INSERT INTO lockhouse_owner_session VALUES ('bb',1,'2020-01-01')",
        )
        .await;
    let started = Instant::now();
    for of in ["a", "c", "aa", "bbb", "d"] {
        one(&store, heartbeat(of, 2000)).await.unwrap().unwrap();
        one(&store, goodbye(of)).await.unwrap().unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("COMMIT").await;
    let left = "SELECT COUNT(*) FROM lockhouse_owner_session";
    assert_eq!(other.number(left).await, 2);
}

async fn owners_of_live_requests_are_listed_in_byte_order(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 99)).await.unwrap().unwrap();
    let mut owners = ["b", "B", "ä", "a", "a b", "🚀", "~", "é", "ZZ"];
    for (i, of) in owners.iter().enumerate() {
        for again in 0..2 {
            let command = acquire_for(format!("{i}-{again}"), &["a"], of, None);
            granted(one(&store, command).await.unwrap());
        }
    }
    granted(one(&store, acquire("nobody's", &["a"])).await.unwrap());
    granted(
        one(&store, acquire_for("over", &["a"], "over", None))
            .await
            .unwrap(),
    );
    one(&store, release("over")).await.unwrap().unwrap();
    one(&store, heartbeat("only heard", 1000))
        .await
        .unwrap()
        .unwrap();

    owners.sort_unstable();
    let mut page = Page {
        after: None,
        limit: 4,
    };
    let mut listed: Vec<Owner> = Vec::new();
    loop {
        let more = store.owners(&page).await.unwrap();
        let Some(last) = more.last() else { break };
        assert!(more.len() <= 4);
        page.after = Some(last.clone());
        listed.extend(more);
    }
    assert_eq!(listed, owners.map(owner));
}
