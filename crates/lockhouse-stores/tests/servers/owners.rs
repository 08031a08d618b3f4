//! Locks of owners' sessions.

use std::time::{Duration, Instant};

use lockhouse_core::Command;

use crate::database::{Database, heartbeat, on_every_server, one, owner};

on_every_server! {
    a_session_is_locked_alone,
}

fn goodbye(of: &str) -> Command {
    Command::Goodbye { owner: owner(of) }
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
