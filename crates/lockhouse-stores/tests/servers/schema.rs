//! The schema, and who may do what.

use std::time::{Duration, Instant};

use lockhouse_core::store::Kind;
use lockhouse_stores::open;

use crate::database::{Database, Server, acquire, define, granted, on_every_server, one};
use crate::session::Session;
use crate::user::User;

on_every_server! {
    a_database_that_does_not_exist_is_reported,
    a_user_without_the_right_to_change_tables_can_work,
    a_user_with_all_its_connections_in_use_finds_it_crowded,
    every_table_has_a_primary_key,
    every_column_of_text_compares_byte_by_byte,
}

async fn a_database_that_does_not_exist_is_reported(database: &Database) {
    let url = database.url(database.admin(), database.address(), "");
    let url = url.replace(database.name(), "lockhouse_nowhere");
    let error = open(&url).unwrap().migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration);
    let told = error.to_string();
    assert!(
        told.contains("CREATE DATABASE") && told.contains("lockhouse_nowhere"),
        "{told}"
    );
}

async fn a_user_without_the_right_to_change_tables_can_work(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "SELECT,INSERT,UPDATE", "").await;
    let store = open(&user.url("")).unwrap();
    store.migrate().await.unwrap();
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
    user.remove().await;
}

/// As Galera, Group Replication and logical replication demand.
async fn every_table_has_a_primary_key(database: &Database) {
    database.migrated().await;
    let without = database.sql(
        "SELECT COUNT(*) FROM information_schema.tables t \
        LEFT JOIN information_schema.table_constraints c ON c.table_schema=t.table_schema \
        AND c.table_name=t.table_name AND c.constraint_type='PRIMARY KEY' \
        WHERE t.table_schema=DATABASE() AND (c.constraint_name IS NULL OR t.engine<>'InnoDB')",
        "SELECT COUNT(*) FROM pg_class t WHERE t.relkind='r' \
         AND t.relnamespace=current_schema()::regnamespace \
         AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid=t.oid AND i.indisprimary)",
    );
    assert_eq!(database.session().await.number(without).await, 0);
}

async fn every_column_of_text_compares_byte_by_byte(database: &Database) {
    database.migrated().await;
    let other = database.sql(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=DATABASE() \
         AND data_type='varchar' \
         AND collation_name NOT IN ('utf8mb4_0900_bin','utf8mb4_nopad_bin','ascii_bin')",
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=current_schema() \
         AND data_type='text' AND (collation_name IS NULL OR collation_name<>'C')",
    );
    assert_eq!(database.session().await.number(other).await, 0);
}

/// A user may have one connection, and has it elsewhere. Waiting for another connection harms
/// nobody, so this differs from an unavailable server.
async fn a_user_with_all_its_connections_in_use_finds_it_crowded(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "ALL", "").await;
    let limit = match database.server {
        Server::MySql | Server::MariaDb => {
            format!(
                "ALTER USER '{}'@'%' WITH MAX_USER_CONNECTIONS 1",
                user.name()
            )
        }
        Server::Postgres => format!("ALTER ROLE {} CONNECTION LIMIT 1", user.name()),
    };
    database.session().await.run(&limit).await;
    let elsewhere = Session::open(&user.url("")).await;
    let store = open(&user.url("")).unwrap();
    let error = store.ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Crowded, "{error}");
    drop(elsewhere);
    let until = Instant::now() + Duration::from_secs(9);
    while let Err(error) = store.ready().await {
        assert!(Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(store);
    user.remove().await;
}
