//! Owners: their sessions, what they hold, and who ended it.

use std::time::{Duration, Instant};

use lockhouse_core::{Command, Reply};

use crate::database::{Database, heartbeat, on_every_server, one, owner};

on_every_server! {
    a_heartbeat_is_kept_and_the_next_one_pushes_it,
    a_session_is_locked_alone,
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
