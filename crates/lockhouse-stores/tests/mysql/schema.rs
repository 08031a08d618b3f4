//! The schema, and who may do what.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Kind, Store};
use lockhouse_stores::MySql;
use sqlx::{Connection as _, MySqlConnection};

use crate::database::{
    Database, Server, acquire, define, granted, number, on_both_servers, one, run,
};

on_both_servers! {
    eight_migrations_at_once_of_an_empty_database_all_succeed,
    a_migration_that_was_cut_off_is_finished_by_the_next,
    a_schema_that_is_missing_or_too_new_is_told,
    a_database_that_does_not_exist_is_told,
    a_user_without_the_right_to_change_tables_can_work,
    a_user_with_a_password_can_log_in_again_and_again,
    a_user_who_has_all_its_connections_finds_it_crowded,
    every_table_has_a_primary_key,
}

async fn eight_migrations_at_once_of_an_empty_database_all_succeed(database: &Database) {
    let migrations = (0..8).map(|_| {
        let store = database.store();
        tokio::spawn(async move { store.migrate().await })
    });
    for migration in migrations.collect::<Vec<_>>() {
        migration.await.unwrap().unwrap();
    }
    let store = database.store();
    store.ready().await.unwrap();
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
}

async fn a_migration_that_was_cut_off_is_finished_by_the_next(database: &Database) {
    let store = database.migrated().await;
    let cut_off = "DROP TABLE lockhouse_capacity_change; DELETE FROM lockhouse_schema_version";
    run(&mut database.session().await, cut_off).await;
    assert_eq!(store.ready().await.unwrap_err().kind(), Kind::Schema);
    store.migrate().await.unwrap();
    store.ready().await.unwrap();
}

async fn a_schema_that_is_missing_or_too_new_is_told(database: &Database) {
    let store = database.store();
    let ready = store.ready().await.unwrap_err();
    let batch = one(&store, define("a", 1)).await.unwrap_err();
    for error in [ready, batch] {
        assert_eq!(error.kind(), Kind::Schema);
        assert!(error.to_string().contains("lockhouse migrate"), "{error}");
    }

    store.migrate().await.unwrap();
    let newer = "INSERT INTO lockhouse_schema_version VALUES (99,SYSDATE(6))";
    run(&mut database.session().await, newer).await;
    for error in [store.ready().await, store.migrate().await] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), Kind::Schema);
        assert!(error.to_string().contains("version 99"), "{error}");
    }
}

async fn a_database_that_does_not_exist_is_told(database: &Database) {
    let url = format!("mysql://root@{}/lockhouse_nowhere", database.address());
    let error = MySql::open(&url).unwrap().migrate().await.unwrap_err();
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
    let store = MySql::open(&user.url("")).unwrap();
    store.migrate().await.unwrap();
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
    user.remove().await;
}

/// By TCP in the clear, where MySQL wants the password encrypted with its key, and by TLS. The
/// server remembers a first login, and takes another path for the next.
async fn a_user_with_a_password_can_log_in_again_and_again(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "ALL", "pä'ss/wörd").await;
    let mut modes = vec!["disabled", "preferred"];
    if database.server == Server::MySql {
        modes.push("required");
    }
    for mode in modes {
        for _ in 0..3 {
            let store = MySql::open(&user.url(&format!("ssl-mode={mode}"))).unwrap();
            store.ready().await.unwrap();
        }
    }

    let wrong = database.url(&format!("{}:wrong", user.name), database.address(), "");
    let started = Instant::now();
    let error = MySql::open(&wrong).unwrap().ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
    user.remove().await;
}

/// As Galera and Group Replication demand.
async fn every_table_has_a_primary_key(database: &Database) {
    database.migrated().await;
    let without = "SELECT COUNT(*) FROM information_schema.tables t \
        LEFT JOIN information_schema.table_constraints c ON c.table_schema=t.table_schema \
        AND c.table_name=t.table_name AND c.constraint_type='PRIMARY KEY' \
        WHERE t.table_schema=DATABASE() AND (c.constraint_name IS NULL OR t.engine<>'InnoDB')";
    assert_eq!(number(&mut database.session().await, without).await, 0);
}

/// A user may have one connection, and has it elsewhere. What waits for another harms nobody, so it
/// is told apart from a server that is out.
async fn a_user_who_has_all_its_connections_finds_it_crowded(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "ALL", "").await;
    let one = format!("ALTER USER '{}'@'%' WITH MAX_USER_CONNECTIONS 1", user.name);
    run(&mut database.session().await, &one).await;
    let elsewhere = MySqlConnection::connect(&user.url("")).await.unwrap();
    let store = MySql::open(&user.url("")).unwrap();
    let error = store.ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Crowded, "{error}");
    elsewhere.close().await.unwrap();
    let until = Instant::now() + Duration::from_secs(9);
    while let Err(error) = store.ready().await {
        assert!(Instant::now() < until, "{error}");
    }
    user.remove().await;
}

struct User<'a> {
    database: &'a Database,
    name: String,
    password: &'a str,
}

impl<'a> User<'a> {
    async fn with_password(database: &'a Database, rights: &str, password: &'a str) -> Self {
        let name = format!("u{:08x}", fastrand::u32(..));
        let create = format!(
            "CREATE USER '{name}'@'%' IDENTIFIED BY '{}'; GRANT {rights} ON {}.* TO '{name}'@'%'",
            password.replace('\'', "''"),
            database.name()
        );
        run(&mut database.session().await, &create).await;
        Self {
            database,
            name,
            password,
        }
    }

    fn url(&self, parameters: &str) -> String {
        let encoded = self.password.bytes().map(|byte| format!("%{byte:02x}"));
        let mut user = self.name.clone();
        if !self.password.is_empty() {
            user = user + ":" + &encoded.collect::<String>();
        }
        self.database
            .url(&user, self.database.address(), parameters)
    }

    async fn remove(self) {
        let drop = format!("DROP USER '{}'@'%'", self.name);
        run(&mut self.database.session().await, &drop).await;
    }
}
