//! A separate database for each test, and the functions that tests share.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, FullStore};
use lockhouse_core::{
    Ask, Capacity, Command, Count, Definition, ExternalId, Outcome, Owner, Reply, Request,
    SemaphoreName, SemaphoreRow, Ttl,
};

use crate::session::Session;

/// A server that tests may use, by the environment variable that says where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    MySql,
    MariaDb,
    Postgres,
}

/// A database on a server.
pub(crate) struct Database {
    pub(crate) server: Server,
    base: String,
    name: String,
}

/// A store on a server.
pub(crate) type Served = Arc<dyn FullStore>;

/// Stamps one test for each of the functions on one server.
macro_rules! on_server {
    ($module:ident, $server:ident; $($test:ident,)*) => {
        mod $module {
            use crate::database::{Server, on};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                on(Server::$server, super::$test).await;
            })*
        }
    };
}
pub(crate) use on_server;

/// Stamps one test a server for each of the functions.
macro_rules! on_every_server {
    ($($test:ident,)*) => {
        crate::database::on_server! { on_mysql, MySql; $($test,)* }
        crate::database::on_server! { on_mariadb, MariaDb; $($test,)* }
        crate::database::on_server! { on_postgres, Postgres; $($test,)* }
    };
}
pub(crate) use on_every_server;

/// The same for what is MySQL's and MariaDB's own.
macro_rules! on_mysql_and_mariadb {
    ($($test:ident,)*) => {
        crate::database::on_server! { on_mysql, MySql; $($test,)* }
        crate::database::on_server! { on_mariadb, MariaDb; $($test,)* }
    };
}
pub(crate) use on_mysql_and_mariadb;

/// Runs `test` on an empty database, which is left behind if it fails.
pub(crate) async fn on(server: Server, test: impl AsyncFnOnce(&Database)) {
    let variable = match server {
        Server::MySql => "LOCKHOUSE_TEST_MYSQL_URL",
        Server::MariaDb => "LOCKHOUSE_TEST_MARIADB_URL",
        Server::Postgres => "LOCKHOUSE_TEST_POSTGRES_URL",
    };
    let Ok(base) = std::env::var(variable) else {
        let all = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
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
    let mut admin = Session::open(&database.base).await;
    let name = &database.name;
    admin.run(&format!("CREATE DATABASE {name}")).await;
    test(&database).await;
    let force = database.sql("", " WITH (FORCE)");
    admin.run(&format!("DROP DATABASE {name}{force}")).await;
}

impl Database {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `127.0.0.1:3306`.
    pub(crate) fn address(&self) -> &str {
        let (_, host) = self.base.rsplit_once('@').unwrap();
        host.split('/').next().unwrap()
    }

    /// The server's administrator.
    pub(crate) fn admin(&self) -> &'static str {
        self.sql("root", "postgres")
    }

    /// The database's URL for `user`, at `address`.
    pub(crate) fn url(&self, user: &str, address: &str, parameters: &str) -> String {
        let scheme = self.sql("mysql", "postgres");
        format!("{scheme}://{user}@{address}/{}?{parameters}", self.name)
    }

    /// A store on this database, without migration.
    pub(crate) fn store(&self) -> Served {
        self.store_with("")
    }

    /// The same, with parameters in its URL.
    pub(crate) fn store_with(&self, parameters: &str) -> Served {
        lockhouse_stores::open(&self.url(self.admin(), self.address(), parameters)).unwrap()
    }

    /// A store on this database, with its schema.
    pub(crate) async fn migrated(&self) -> Served {
        let store = self.store();
        store.migrate().await.unwrap();
        store
    }

    /// A session of somebody else, which reads what is committed.
    pub(crate) async fn session(&self) -> Session {
        let mut session = Session::open(&self.url(self.admin(), self.address(), "")).await;
        let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        session.run(self.sql(level, "")).await;
        session
    }

    /// SQL that differs between MySQL and MariaDB on one side and PostgreSQL on the other.
    pub(crate) fn sql(&self, mysql: &'static str, postgres: &'static str) -> &'static str {
        match self.server {
            Server::MySql | Server::MariaDb => mysql,
            Server::Postgres => postgres,
        }
    }

    /// The clock, in SQL.
    pub(crate) fn clock(&self) -> &'static str {
        self.sql("SYSDATE(6)", "clock_timestamp()")
    }

    /// Waits until `waiting` calls are at the lock of a semaphore, which somebody else holds.
    pub(crate) async fn lock_waits(&self, session: &mut Session, waiting: u64) {
        let count = self.sql(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db=DATABASE() AND info LIKE '%SELECT%FROM lockhouse_semaphore%FOR UPDATE' \
             AND id<>CONNECTION_ID()",
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname=current_database() \
             AND wait_event_type='Lock' AND query LIKE '%FROM lockhouse_semaphore%FOR UPDATE%'",
        );
        while session.number(count).await < waiting {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
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
    Command::acquire(Ask::new(id(external_id), permits).unwrap())
}

/// The same, asked for by an owner, and for a time if one is given.
pub(crate) fn acquire_for(
    external_id: impl AsRef<str>,
    semaphores: &[&str],
    by: &str,
    ttl_ms: Option<i64>,
) -> Command {
    let Command::Acquire { mut ask, .. } = acquire(external_id, semaphores) else {
        unreachable!("it is one")
    };
    ask.owner = Some(owner(by));
    ask.ttl = ttl_ms.map(ttl);
    Command::acquire(ask)
}

pub(crate) fn heartbeat(of: &str, ttl_ms: i64) -> Command {
    Command::Heartbeat {
        owner: owner(of),
        ttl: ttl(ttl_ms),
        must_exist: false,
    }
}

pub(crate) fn ttl(ms: i64) -> Ttl {
    Ttl::from_ms(ms).unwrap()
}

pub(crate) fn release(external_id: impl AsRef<str>) -> Command {
    Command::release(id(external_id))
}

/// The one outcome of a batch of one command.
pub(crate) async fn one(store: &Served, command: Command) -> Result<Outcome, Error> {
    let outcomes = store.transact(&Batch::new(vec![command])).await?;
    Ok(outcomes.into_iter().next().unwrap())
}

/// The outcome of `command`, tried until the store gives one, as an engine does.
pub(crate) async fn insist(store: &Served, command: Command) -> Outcome {
    insist_on(store, vec![command]).await.remove(0)
}

/// The same of several commands in one batch.
pub(crate) async fn insist_on(store: &Served, commands: Vec<Command>) -> Vec<Outcome> {
    let batch = Batch::new(commands);
    loop {
        match store.transact(&batch).await {
            Ok(outcomes) => return outcomes,
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
pub(crate) async fn semaphore(store: &Served, called: &str) -> SemaphoreRow {
    store.semaphore(&name(called)).await.unwrap().unwrap()
}
