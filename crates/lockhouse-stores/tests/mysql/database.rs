//! A database of its own for each test, and the words that tests speak.

use std::io::Write as _;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, Store};
use lockhouse_core::{
    Ask, Capacity, Command, Count, Definition, ExternalId, Outcome, Owner, Reply, Request,
    Semaphore, SemaphoreName, Ttl,
};
use lockhouse_stores::MySql;
use sqlx::{Connection as _, Executor as _, MySqlConnection, Row as _};

/// A server that tests may use, by the environment variable that says where it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    MySql,
    MariaDb,
}

/// A database on a server.
pub(crate) struct Database {
    pub(crate) server: Server,
    base: String,
    name: String,
}

/// Stamps one test a server for each of the functions.
macro_rules! on_both_servers {
    ($($test:ident,)*) => {
        mod on_mysql {
            use crate::database::{Server, on};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                on(Server::MySql, super::$test).await;
            })*
        }
        mod on_mariadb {
            use crate::database::{Server, on};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                on(Server::MariaDb, super::$test).await;
            })*
        }
    };
}
pub(crate) use on_both_servers;

/// Runs `test` on an empty database, which is left behind if it fails.
pub(crate) async fn on(server: Server, test: impl AsyncFnOnce(&Database)) {
    let variable = match server {
        Server::MySql => "LOCKHOUSE_TEST_MYSQL_URL",
        Server::MariaDb => "LOCKHOUSE_TEST_MARIADB_URL",
    };
    let Ok(base) = std::env::var(variable) else {
        let all = std::env::var("LOCKHOUSE_TEST_FULL").is_ok_and(|full| full == "1");
        assert!(!all, "{variable} is not set");
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let left_out = format!("left out {test}: {variable} is not set\n");
        std::io::stderr().write_all(left_out.as_bytes()).unwrap();
        return;
    };
    let database = Database {
        server,
        base,
        name: format!("lockhouse_test_{:016x}", fastrand::u64(..)),
    };
    let mut admin = MySqlConnection::connect(&database.base).await.unwrap();
    admin
        .execute(&*format!("CREATE DATABASE {}", database.name))
        .await
        .unwrap();
    test(&database).await;
    admin
        .execute(&*format!("DROP DATABASE {}", database.name))
        .await
        .unwrap();
}

impl Database {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `127.0.0.1:3306`.
    pub(crate) fn address(&self) -> &str {
        let (_, host) = self.base.rsplit_once('@').unwrap();
        host.trim_end_matches('/')
    }

    /// The database's URL for `user`, at `address`.
    pub(crate) fn url(&self, user: &str, address: &str, parameters: &str) -> String {
        format!("mysql://{user}@{address}/{}?{parameters}", self.name)
    }

    /// A store on this database, as it is.
    pub(crate) fn store(&self) -> MySql {
        MySql::open(&self.url("root", self.address(), "")).unwrap()
    }

    /// A store on this database, with its schema.
    pub(crate) async fn migrated(&self) -> MySql {
        let store = self.store();
        store.migrate().await.unwrap();
        store
    }

    /// A session of somebody else.
    pub(crate) async fn session(&self) -> MySqlConnection {
        let url = format!("{}{}", self.base, self.name);
        MySqlConnection::connect(&url).await.unwrap()
    }

    /// Waits until `waiting` calls are at the lock of a semaphore, which somebody else holds.
    pub(crate) async fn lock_waits(&self, session: &mut MySqlConnection, waiting: u64) {
        let count = format!(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db='{}' AND info LIKE 'SELECT%FROM lockhouse_semaphore%FOR UPDATE' \
             AND id<>CONNECTION_ID()",
            self.name
        );
        while number(session, &count).await < waiting {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Does `statements` in a session of somebody else.
pub(crate) async fn run(session: &mut MySqlConnection, statements: &str) {
    session.execute(sqlx::raw_sql(statements)).await.unwrap();
}

/// The one number that `query` asks for.
pub(crate) async fn number(session: &mut MySqlConnection, query: &str) -> u64 {
    let row = session.fetch_one(sqlx::raw_sql(query)).await.unwrap();
    let text: &str = row.try_get_unchecked(0).unwrap();
    text.parse().unwrap()
}

/// The one text that `query` asks for.
pub(crate) async fn text(session: &mut MySqlConnection, query: &str) -> String {
    let row = session.fetch_one(sqlx::raw_sql(query)).await.unwrap();
    row.try_get_unchecked(0).unwrap()
}

pub(crate) fn name(name: &str) -> SemaphoreName {
    SemaphoreName::parse(name).unwrap()
}

pub(crate) fn owner(owner: &str) -> Owner {
    Owner::parse(owner).unwrap()
}

/// The ids of requests, as texts.
pub(crate) fn ids(requests: &[Request]) -> Vec<&str> {
    let ids = requests.iter().map(|request| request.external_id.as_str());
    ids.collect()
}

pub(crate) fn id(id: impl AsRef<str>) -> ExternalId {
    ExternalId::parse(id).unwrap()
}

pub(crate) fn define(semaphore: &str, capacity: i32) -> Command {
    Command::Define(Definition::new(
        name(semaphore),
        Capacity::new(capacity).unwrap(),
    ))
}

/// An ask for one permit on each of `semaphores`.
pub(crate) fn acquire(external_id: impl AsRef<str>, semaphores: &[&str]) -> Command {
    let permits = semaphores
        .iter()
        .map(|semaphore| (name(semaphore), Count::ONE));
    Command::Acquire(Ask::new(id(external_id), permits).unwrap())
}

/// The same, asked for by an owner, and for a time if one is given.
pub(crate) fn acquire_for(
    external_id: impl AsRef<str>,
    semaphores: &[&str],
    by: &str,
    ttl_ms: Option<i64>,
) -> Command {
    let Command::Acquire(mut ask) = acquire(external_id, semaphores) else {
        unreachable!("it is one")
    };
    ask.owner = Some(owner(by));
    ask.ttl = ttl_ms.map(ttl);
    Command::Acquire(ask)
}

pub(crate) fn heartbeat(of: &str, ttl_ms: i64) -> Command {
    Command::Heartbeat {
        owner: owner(of),
        ttl: ttl(ttl_ms),
    }
}

pub(crate) fn ttl(ms: i64) -> Ttl {
    Ttl::from_ms(ms).unwrap()
}

pub(crate) fn release(external_id: impl AsRef<str>) -> Command {
    Command::release(id(external_id))
}

/// The one outcome of a batch of one command.
pub(crate) async fn one(store: &MySql, command: Command) -> Result<Outcome, Error> {
    let outcomes = store.transact(&Batch::new(vec![command])).await?;
    Ok(outcomes.into_iter().next().unwrap())
}

/// The outcome of `command`, tried until the store gives one, as an engine does.
pub(crate) async fn insist(store: &MySql, command: Command) -> Outcome {
    loop {
        match one(store, command.clone()).await {
            Ok(outcome) => return outcome,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

/// The request that `outcome` granted, and whether it granted it now.
pub(crate) fn granted(outcome: Outcome) -> (Request, bool) {
    match outcome.unwrap() {
        Reply::Granted { request, now, .. } => (request, now),
        other => panic!("{other:?}"),
    }
}

/// The semaphore, which exists.
pub(crate) async fn semaphore(store: &MySql, called: &str) -> Semaphore {
    store.semaphore(&name(called)).await.unwrap().unwrap()
}
