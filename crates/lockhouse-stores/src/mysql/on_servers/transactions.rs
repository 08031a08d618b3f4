//! A server may end a transaction between two statements without an error, as cluster nodes do.

use lockhouse_core::store::{Error, Kind, Maintenance as _};

use super::{MARIADB, MYSQL, database, lend, remove, server};
use crate::mysql::error::{code, server_code};
use crate::mysql::sql::BEGIN;
use crate::mysql::{MySql, MySqlServer};
use crate::sql::{Lease, Script};

const ADD: &str = "INSERT INTO lockhouse_semaphore \
    (name,capacity,in_use,fence,created_at,updated_at) VALUES ('a',1,0,0,SYSDATE(6),SYSDATE(6))";

/// Where a server may end a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    BeforeLocks,
    AfterLocks,
    BeforeRows,
    AfterRows,
}

use End::{AfterLocks, AfterRows, BeforeLocks, BeforeRows};

#[tokio::test]
async fn on_mysql_a_transaction_that_is_over_saves_nothing() {
    a_transaction_that_is_over_saves_nothing(MYSQL).await;
}

#[tokio::test]
async fn on_mariadb_a_transaction_that_is_over_saves_nothing() {
    a_transaction_that_is_over_saves_nothing(MARIADB).await;
}

async fn a_transaction_that_is_over_saves_nothing(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    for end in [BeforeLocks, AfterLocks, BeforeRows, AfterRows] {
        let mut lease = lend(&store, variable).await;
        lease.guard().await;
        let error = save(&mut lease, Some(end)).await.unwrap_err();
        let code = server_code(&error);
        assert_eq!(code, Some(code::SP_DOES_NOT_EXIST), "{end:?}");
        assert_eq!(error.kind(), Kind::Conflict);
        drop(lease);
        assert!(store.recount().await.unwrap().semaphores.is_empty());
    }

    // As a session is on a single server: what comes after the end commits by itself.
    let store = MySql::open(&format!("{base}{database}")).unwrap();
    let mut lease = lend(&store, variable).await;
    save(&mut lease, Some(BeforeRows)).await.unwrap();
    drop(lease);
    assert_eq!(store.recount().await.unwrap().semaphores.len(), 1);
    remove(&base, &database).await;
}

#[tokio::test]
async fn on_mysql_a_guarded_transaction_is_saved() {
    a_guarded_transaction_is_saved(MYSQL).await;
}

#[tokio::test]
async fn on_mariadb_a_guarded_transaction_is_saved() {
    a_guarded_transaction_is_saved(MARIADB).await;
}

async fn a_guarded_transaction_is_saved(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let mut lease = lend(&store, variable).await;
    lease.guard().await;
    save(&mut lease, None).await.unwrap();
    drop(lease);
    let semaphores = store.recount().await.unwrap().semaphores;
    assert_eq!(semaphores.len(), 1);
    remove(&base, &database).await;
}

/// A batch's two packets, with the `end` of the transaction in one of them.
async fn save(lease: &mut Lease<MySqlServer>, end: Option<End>) -> Result<(), Error> {
    let ends = |script: &mut Script, at: End| {
        if end == Some(at) {
            script.add("ROLLBACK");
        }
    };
    let mut load = Script::transaction(BEGIN);
    ends(&mut load, BeforeLocks);
    load.add("SELECT id FROM lockhouse_semaphore FOR UPDATE");
    ends(&mut load, AfterLocks);
    lease.run(&load, "a test").await?;
    let mut save = Script::new();
    ends(&mut save, BeforeRows);
    save.add(ADD);
    ends(&mut save, AfterRows);
    save.commit();
    lease.run(&save, "a test").await.map(|_| ())
}
