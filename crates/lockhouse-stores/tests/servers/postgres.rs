//! PostgreSQL's own: what else it may answer, and what it does with rows that change all the time.

use lockhouse_core::store::{Batch, Kind};
use lockhouse_stores::open;

use crate::database::{Database, acquire, define, granted, on_server, one, release, semaphore};
use crate::user::User;

on_server! { on_postgres, Postgres;
    a_deadlock_is_a_conflict,
    whatever_the_default_isolation_nobody_fails_to_serialize,
    a_read_only_database_is_reported_until_it_can_be_written,
    a_user_with_a_password_can_log_in_in_the_clear_and_by_tls,
    an_unknown_user_is_reported,
    a_database_in_another_encoding_is_reported,
    a_migration_that_fails_leaves_nothing_behind,
    the_row_of_a_busy_semaphore_stays_on_its_page,
}

async fn a_deadlock_is_a_conflict(database: &Database) {
    let store = database.migrated().await;
    for called in ["a", "b"] {
        one(&store, define(called, 1)).await.unwrap().unwrap();
    }
    let (mut other, mut observer) = (database.session().await, database.session().await);
    // The first session to look for a deadlock is the one that fails: the store's, before its lock wait times
    // out.
    let name = database.name();
    other
        .run(&format!(
            "ALTER DATABASE {name} SET deadlock_timeout='100ms'"
        ))
        .await;
    let store = database.store();
    other.run("SET deadlock_timeout='1min'; BEGIN").await;
    let lock = "SELECT * FROM lockhouse_semaphore WHERE name=";
    other.run(&format!("{lock}'b' FOR UPDATE")).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { one(&store, acquire("x", &["a", "b"])).await }
    });
    database.lock_waits(&mut observer, 1).await;
    other.run(&format!("{lock}'a' FOR UPDATE")).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.to_string().contains("deadlock"), "{error}");
    other.run("ROLLBACK").await;
    granted(one(&store, acquire("x", &["a", "b"])).await.unwrap());
}

/// prefect #22597: where the database's default was REPEATABLE READ, updates of one slot failed for good.
async fn whatever_the_default_isolation_nobody_fails_to_serialize(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 100)).await.unwrap().unwrap();
    let mut other = database.session().await;
    for level in ["repeatable read", "serializable"] {
        let set = "SET default_transaction_isolation";
        let name = database.name();
        other
            .run(&format!("ALTER DATABASE {name} {set}='{level}'"))
            .await;
        let stores = [database.store(), database.store()];
        let tasks = (0..8).map(|task| {
            let store = stores[task % 2].clone();
            tokio::spawn(async move {
                for round in 0..10 {
                    let external_id = format!("{level}-{task}-{round}");
                    granted(one(&store, acquire(&external_id, &["a"])).await.unwrap());
                    one(&store, release(&external_id)).await.unwrap().unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(semaphore(&store, "a").await.in_use, 0);
    }
}

/// An operator has to correct it. A process that runs meanwhile goes on once it is corrected.
async fn a_read_only_database_is_reported_until_it_can_be_written(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let set = |on| {
        let name = database.name();
        format!("ALTER DATABASE {name} SET default_transaction_read_only={on}")
    };
    let mut other = database.session().await;
    other.run(&set("on")).await;
    let fresh = database.store();
    let error = one(&fresh, acquire("x", &["a"])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    let told = error.to_string();
    assert!(
        told.contains("default_transaction_read_only is on"),
        "{told}"
    );
    assert_eq!(semaphore(&fresh, "a").await.in_use, 0, "it can be read");
    let error = one(&fresh, acquire("x", &["a"])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    other.run(&set("off")).await;
    granted(one(&fresh, acquire("x", &["a"])).await.unwrap());
}

async fn a_user_with_a_password_can_log_in_in_the_clear_and_by_tls(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "ALL", "pä'ss/wörd").await;
    for mode in ["disable", "prefer", "require"] {
        let store = open(&user.url(&format!("sslmode={mode}"))).unwrap();
        store.ready().await.unwrap();
    }
    let wrong = format!("{}:wrong", user.name());
    let wrong = database.url(&wrong, database.address(), "");
    let error = open(&wrong).unwrap().ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
    user.remove().await;
}

async fn an_unknown_user_is_reported(database: &Database) {
    let nobody = database.url("nobody_of_this_name", database.address(), "");
    let error = open(&nobody).unwrap().ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("check the user"), "{error}");
}

/// There a byte would not be what it is in the name.
async fn a_database_in_another_encoding_is_reported(database: &Database) {
    let latin = format!("{}_latin", database.name());
    let mut admin = database.session().await;
    let create = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    admin
        .run(&format!("CREATE DATABASE {latin} {create}"))
        .await;
    let url = database.url(database.admin(), database.address(), "");
    let store = open(&url.replace(database.name(), &latin)).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("LATIN1"), "{error}");
    admin
        .run(&format!("DROP DATABASE {latin} WITH (FORCE)"))
        .await;
}

async fn a_migration_that_fails_leaves_nothing_behind(database: &Database) {
    let mut session = database.session().await;
    // It is the last that a migration makes.
    let in_its_way = "CREATE TABLE lockhouse_owner_session (nothing integer)";
    session.run(in_its_way).await;
    let store = database.store();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected, "{error}");
    let tables = "SELECT relname FROM pg_class WHERE relkind='r' AND relname LIKE 'lockhouse%'";
    assert_eq!(session.texts(tables).await, ["lockhouse_owner_session"]);
    session.run("DROP TABLE lockhouse_owner_session").await;
    store.migrate().await.unwrap();
    store.ready().await.unwrap();
}

/// P12. Hundreds of versions come and go where the first was, without new entries in indexes, and
/// without anybody's cleaning. Only while a transaction is open on the server, in another test's
/// database too, the old versions stay: then it is looked at again.
async fn the_row_of_a_busy_semaphore_stays_on_its_page(database: &Database) {
    let store = database.migrated().await;
    let mut session = database.session().await;
    let tables = "SELECT relname FROM pg_class WHERE relkind='r' AND relname LIKE 'lockhouse%'";
    for table in session.texts(tables).await {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled=off)");
        session.run(&off).await;
    }
    one(&store, define("a", 9)).await.unwrap().unwrap();
    let mut stayed = false;
    for again in 0..50 {
        let size = "SELECT pg_total_relation_size('lockhouse_semaphore')";
        let before = session.number(size).await;
        for round in 0..300 {
            let external_id = format!("{again}-{round}");
            let batch = vec![acquire(&external_id, &["a"]), release(&external_id)];
            let outcomes = store.transact(&Batch::new(batch)).await.unwrap();
            assert!(outcomes.iter().all(Result::is_ok));
        }
        stayed = again > 0 && session.number(size).await == before;
        if stayed {
            break;
        }
    }
    assert!(stayed, "it grows with every grant");
}
