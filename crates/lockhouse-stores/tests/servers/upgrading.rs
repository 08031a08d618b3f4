//! Lapsed requests are found in a database of any older version after its migration.

use std::time::Duration;

use lockhouse_core::store::Due;

use crate::database::{
    Database, Server, acquire, granted, heartbeat, ids, name, on_every_server, one,
};

on_every_server! {
    lapsed_requests_are_found_after_an_upgrade_from_each_version,
}

/// P10, P12. Requests of older versions do not say which semaphore they are found by.
async fn lapsed_requests_are_found_after_an_upgrade_from_each_version(database: &Database) {
    let migrations: &[&str] = match database.server {
        Server::Postgres => &[include_str!("../../src/postgres/migrations/0001_first.sql")],
        Server::MySql | Server::MariaDb => &[
            include_str!("../../src/mysql/migrations/0001_first.sql"),
            include_str!("../../src/mysql/migrations/0002_owners_and_the_past.sql"),
            include_str!("../../src/mysql/migrations/0003_less_to_write.sql"),
            include_str!("../../src/mysql/migrations/0004_whose_they_are.sql"),
        ],
    };
    for version in 1..=migrations.len() {
        let mut session = database.session().await;
        for table in TABLES {
            session.run(&format!("DROP TABLE IF EXISTS {table}")).await;
        }
        if database.server == Server::Postgres {
            let versions = "CREATE TABLE lockhouse_schema_version \
                (version integer PRIMARY KEY,applied_at timestamptz NOT NULL)";
            session.run(versions).await;
        }
        for (number, migration) in (1..=version).zip(migrations) {
            session
                .run(&migration.replace("{collation}", collation(database)))
                .await;
            if number == 1 {
                session.run(&rows_of_version_1(database)).await;
            }
            let applied = format!(
                "INSERT INTO lockhouse_schema_version VALUES ({number},{})",
                database.clock()
            );
            session.run(&applied).await;
        }
        let store = database.store();
        store.migrate().await.unwrap();
        store.ready().await.unwrap();
        one(&store, heartbeat("o", 1)).await.unwrap().unwrap();
        let (new, _) = granted(one(&store, acquire("new", &["a"])).await.unwrap());
        let on = [name("a")];
        let mut found = Vec::new();
        for _ in 0..1_000 {
            found = store.due(Due::Lapsed { on: Some(&on) }, 9).await.unwrap();
            if found.len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ids(&found), ["lapsed", "silent"], "version {version}");
        let only = "SELECT only_semaphore_id FROM lockhouse_permit_request WHERE external_id='new'";
        assert_eq!(session.number(only).await, 7, "version {version}");
        assert_eq!(new.permits[0].fence, 6);
        assert!(store.recount().await.unwrap().findings().is_empty());
    }
}

const TABLES: [&str; 7] = [
    "lockhouse_schema_version",
    "lockhouse_semaphore",
    "lockhouse_permit_request",
    "lockhouse_permit",
    "lockhouse_capacity_change",
    "lockhouse_owner_session",
    "lockhouse_waiting",
];

/// On `a`, one that has expired and one of the owner `o`.
fn rows_of_version_1(database: &Database) -> String {
    let now = database.clock();
    let state = match database.server {
        Server::Postgres => "",
        Server::MySql | Server::MariaDb => ",'ACQUIRED'",
    };
    format!(
        "INSERT INTO lockhouse_semaphore \
         (id,name,capacity,in_use,fence,created_at,updated_at,deleted_at) \
         VALUES (7,'a',9,2,5,{now},{now},NULL); \
         INSERT INTO lockhouse_permit_request \
         (id,external_id,owner,state,ttl_ms,expires_at,created_at) VALUES \
         (11,'silent','o','ACQUIRED',NULL,NULL,{now}),\
         (12,'lapsed',NULL,'ACQUIRED',1,'2020-01-01','2020-01-01'); \
         INSERT INTO lockhouse_permit VALUES (11,7,1,5{state}),(12,7,1,4{state})"
    )
}

/// The one that compares byte by byte.
pub(crate) fn collation(database: &Database) -> &'static str {
    match database.server {
        Server::MySql => "utf8mb4_0900_bin",
        _ => "utf8mb4_nopad_bin",
    }
}
