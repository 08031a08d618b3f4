//! Places: each is a fresh store for one test, and any number of clients on it.
//!
//! A new store gets a function here that makes its place, such as [`mysql`], and a name in [`by_name`].
//!
//! The real servers are named by `LOCKHOUSE_TEST_MYSQL_URL`, `LOCKHOUSE_TEST_MARIADB_URL`,
//! `LOCKHOUSE_TEST_MARIADB11_URL`, `LOCKHOUSE_TEST_POSTGRES_URL`,
//! `LOCKHOUSE_TEST_POSTGRES18_URL`, `LOCKHOUSE_TEST_REDIS_URL` and `LOCKHOUSE_TEST_VALKEY_URL`, as `scripts/services env`
//! prints them. If a variable is missing, its tests say so and pass. If `LOCKHOUSE_TEST_FULL` is set, they fail instead, so
//! that a full run leaves nothing out.

pub mod damage;
pub mod writes;

use std::any::Any;
use std::future::pending;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockhouse::Lockhouse;
use lockhouse::store::FullStore;
use lockhouse_stores::Memory;
use sqlx::{Connection, Executor, MySqlConnection, PgConnection, Row};
use tokio::net::TcpListener;

use crate::redis;
use crate::schema_copy::copy_schema;
use crate::statement::{is_postgres, run};
use crate::watched::Watched;

type Connect = Box<dyn Fn() -> BoxFuture<'static, Lockhouse> + Send + Sync>;

/// A fresh store, and how to have clients on it.
pub struct Place {
    url: Option<String>,
    connect: Connect,
    /// The store itself, if it is in memory, where no URL names it.
    memory: Option<Arc<Memory>>,
    database: Option<Database>,
    is_damaged: bool,
    _kept: Box<dyn Any + Send + Sync>,
}

/// A database, or a namespace, on a real server, to be dropped afterwards.
struct Database {
    server: String,
    name: String,
}

impl Place {
    /// Another client. Each client has a separate engine, as another process would. On a server's place each has
    /// separate connections to the server.
    pub async fn client(&self) -> Lockhouse {
        (self.connect)().await
    }

    /// Another empty store of the same kind, on the same server if it is on one.
    ///
    /// # Panics
    /// If this one is neither on a database server nor in a file.
    pub async fn beside(&self) -> Place {
        if let Some(database) = &self.database {
            return on_server(&database.server).await;
        }
        let is_file = self.url().starts_with("sqlite:");
        assert!(is_file, "{} is not a store", self.url());
        sqlite().await.expect("a file can be anywhere")
    }

    /// The store itself, opened once more, with its schema.
    pub async fn store(&self) -> Arc<dyn FullStore> {
        let store = self.unmigrated_store();
        store.migrate().await.unwrap();
        store
    }

    /// Removes all that a database has, also its schema.
    pub async fn empty(&self) {
        if let Some(Database { server, name }) = &self.database
            && !redis::is_redis(server)
        {
            empty_database(server, name).await;
        }
    }

    /// The store itself, opened once more, without migration.
    pub fn unmigrated_store(&self) -> Arc<dyn FullStore> {
        match &self.memory {
            Some(memory) => memory.clone(),
            None => lockhouse_stores::open(self.url()).unwrap(),
        }
    }

    /// The same place, where [`damage`](damage::damage) is not written. So its stores do not find it.
    pub fn without_damage(mut self) -> Self {
        self.is_damaged = false;
        self
    }

    /// Whether the store notifies a process of what other processes release.
    pub fn notifies(&self) -> bool {
        self.url.as_deref().is_some_and(is_postgres)
    }

    /// Whether a migration has several commits, so that it may be interrupted between two of them.
    pub fn migrates_in_steps(&self) -> bool {
        let in_steps = |url: &str| url.starts_with("mysql") || is_postgres(url);
        self.url.as_deref().is_some_and(in_steps)
    }

    /// Another client whose engine, or whose server's engine, gets the store's grants late by this time.
    pub async fn late_client(&self, late_by: Duration) -> Lockhouse {
        let store = self.store().await;
        let lockhouse = Lockhouse::with_store(Watched::late(store, late_by));
        if !self.url.as_ref().is_some_and(|url| url.starts_with("http")) {
            return lockhouse;
        }
        let (url, _serving) = serve(lockhouse).await;
        Lockhouse::connect(&url).await.unwrap()
    }

    /// The URL by which other processes find the same store. A store in memory has none.
    pub fn url(&self) -> &str {
        self.url
            .as_deref()
            .expect("this place can't be had by a URL")
    }

    /// Removes the test's database or namespace from a real server. A test that fails keeps it, for inspection.
    pub async fn clear(self) {
        let Some(Database { server, name }) = self.database else {
            return;
        };
        match redis::is_redis(&server) {
            true => redis::delete(&server, &name).await,
            false => run(&server, &drop_database(&server, &name)).await,
        }
    }

    fn by_url(url: String, kept: impl Any + Send + Sync) -> Self {
        let to = url.clone();
        Self {
            url: Some(url),
            connect: Box::new(move || {
                let to = to.clone();
                Box::pin(async move { Lockhouse::connect(&to).await.unwrap() })
            }),
            memory: None,
            database: None,
            is_damaged: true,
            _kept: Box::new(kept),
        }
    }
}

/// The stores whose rows tests read by SQL, as a command line names them.
pub const STORES: [&str; 6] = [
    "sqlite",
    "mysql",
    "mariadb",
    "mariadb11",
    "postgres",
    "postgres18",
];

/// A place on the store of that name.
pub async fn by_name(store: &str) -> Option<Place> {
    match store {
        "sqlite" => sqlite().await,
        "mysql" => mysql().await,
        "mariadb" => mariadb().await,
        "mariadb11" => mariadb11().await,
        "postgres" => postgres().await,
        "postgres18" => postgres18().await,
        "redis" => redis().await,
        "valkey" => valkey().await,
        _ => panic!("no store is called {store:?}; there are {STORES:?}, redis and valkey"),
    }
}

/// A store in this process's memory.
pub async fn memory() -> Option<Place> {
    let store = Arc::new(Memory::new());
    let memory = Some(Arc::clone(&store));
    let connect: Connect = Box::new(move || {
        let lockhouse = Lockhouse::with_store(store.clone());
        Box::pin(async move { lockhouse })
    });
    Some(Place {
        url: None,
        connect,
        memory,
        database: None,
        is_damaged: true,
        _kept: Box::new(()),
    })
}

/// An SQLite file.
pub async fn sqlite() -> Option<Place> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lockhouse.db").display());
    Some(Place::by_url(url, folder))
}

/// A server on loopback, in this process, on a store in memory.
pub async fn server() -> Option<Place> {
    let memory = Arc::new(Memory::new());
    let (url, serving) = serve(Lockhouse::with_store(memory.clone())).await;
    let mut place = Place::by_url(url, serving);
    place.memory = Some(memory);
    Some(place)
}

/// A server on loopback, in this process, until the runtime ends.
pub async fn serve(lockhouse: Lockhouse) -> (String, impl Send + Sync + 'static) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = lockhouse_server::serve(lockhouse, listener, pending::<()>());
    (url, tokio::spawn(serving))
}

/// A database on the real MySQL.
pub async fn mysql() -> Option<Place> {
    database("LOCKHOUSE_TEST_MYSQL_URL").await
}

/// A database on the real MariaDB of the machine's Debian release.
pub async fn mariadb() -> Option<Place> {
    database("LOCKHOUSE_TEST_MARIADB_URL").await
}

/// A database on the real MariaDB 11.8.
pub async fn mariadb11() -> Option<Place> {
    database("LOCKHOUSE_TEST_MARIADB11_URL").await
}

/// A database on the real PostgreSQL of the machine's Debian release.
pub async fn postgres() -> Option<Place> {
    database("LOCKHOUSE_TEST_POSTGRES_URL").await
}

/// A database on the real PostgreSQL 18.
pub async fn postgres18() -> Option<Place> {
    database("LOCKHOUSE_TEST_POSTGRES18_URL").await
}

/// A namespace on the real Redis.
pub async fn redis() -> Option<Place> {
    database("LOCKHOUSE_TEST_REDIS_URL").await
}

/// A namespace on the real Valkey.
pub async fn valkey() -> Option<Place> {
    database("LOCKHOUSE_TEST_VALKEY_URL").await
}

async fn database(variable: &str) -> Option<Place> {
    let place = on_server(&server_url(variable)?).await;
    if let Some(Database { server, name }) = &place.database
        && server.starts_with("mysql")
    {
        copy_schema(server, name).await;
    }
    Some(place)
}

/// A new database, or namespace, on the server at the URL `server`. It is empty: the first client migrates it.
pub async fn on_server(server: &str) -> Place {
    let name = format!("lockhouse_{}", uuid::Uuid::new_v4().simple());
    let mut url = url::Url::parse(server).unwrap();
    if redis::is_redis(server) {
        url.set_query(Some(&format!("namespace={name}")));
    } else {
        run(server, &format!("CREATE DATABASE {name}")).await;
        url.set_path(&name);
    }
    let mut place = Place::by_url(url.into(), ());
    place.database = Some(Database {
        server: server.to_owned(),
        name,
    });
    place
}

/// Creates the database `name` on `server` again, empty.
pub async fn empty_database(server: &str, name: &str) {
    run(server, &drop_database(server, &format!("IF EXISTS {name}"))).await;
    run(server, &format!("CREATE DATABASE {name}")).await;
}

/// Connections that are about to close do not keep a database.
fn drop_database(server: &str, name: &str) -> String {
    let force = if is_postgres(server) {
        " WITH (FORCE)"
    } else {
        ""
    };
    format!("DROP DATABASE {name}{force}")
}

/// Runs `statement` on the database of `place`, past the store and the constraints of a file.
pub async fn run_on(place: &Place, statement: &str) {
    match place.url().strip_prefix("sqlite:") {
        Some(file) => {
            let connection = rusqlite::Connection::open(file).unwrap();
            let unchecked = "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF";
            connection.execute_batch(unchecked).unwrap();
            connection.execute_batch(statement).unwrap();
        }
        None => run(place.url(), statement).await,
    }
}

/// The first text that `statement` answers on the server's database of `place`, past the store.
pub async fn text_of(place: &Place, statement: &str) -> String {
    match is_postgres(place.url()) {
        true => {
            let mut connection = PgConnection::connect(place.url()).await.unwrap();
            let row = connection.fetch_one(statement).await;
            row.unwrap().get(0)
        }
        false => {
            let mut connection = MySqlConnection::connect(&mysql_url(place.url()))
                .await
                .unwrap();
            let row = connection.fetch_one(statement).await;
            row.unwrap().get(0)
        }
    }
}

/// Makes the schema of `place` that of a later version, past the store. Returns whether the store has a schema.
pub async fn make_schema_newer(place: &Place, version: u32) -> bool {
    match &place.url {
        None => return false,
        Some(url) if redis::is_redis(url) => redis::overwrite_schema(url, version).await,
        Some(_) => {
            let newer = format!(
                "INSERT INTO lockhouse_schema_version SELECT {version},MAX(applied_at) \
                 FROM lockhouse_schema_version"
            );
            run_on(place, &newer).await;
        }
    }
    true
}

/// Writes `line`, a text without quotes, into the row of `semaphore`, past the store.
pub async fn overwrite_line(place: &Place, semaphore: &str, line: &str) {
    if redis::is_redis(place.url()) {
        return redis::overwrite_line(place.url(), semaphore, line).await;
    }
    let overwrite =
        format!("UPDATE lockhouse_semaphore SET line='{line}' WHERE name='{semaphore}'");
    run_on(place, &overwrite).await;
}

/// How many statements the server at `url` has got so far. On PostgreSQL it is the number of transactions in the database,
/// which the server may report 10 s late. There a statement outside a transaction counts as one.
pub async fn statements(url: &str) -> u64 {
    if !is_postgres(url) {
        return mysql_status(url, "Questions").await;
    }
    let mut connection = PgConnection::connect(url).await.unwrap();
    let done = "SELECT (xact_commit + xact_rollback)::text FROM pg_stat_database \
        WHERE datname = current_database()";
    let sent: String = sqlx::query_scalar(done)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    sent.parse().unwrap()
}

/// [`statements`] without the ends of connections, which MySQL and MariaDB count as statements.
pub async fn queries(url: &str) -> u64 {
    match is_postgres(url) {
        true => statements(url).await,
        false => statements(url).await - mysql_status(url, "Connections").await,
    }
}

async fn mysql_status(url: &str, name: &str) -> u64 {
    let mut connection = MySqlConnection::connect(&mysql_url(url)).await.unwrap();
    let status = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let row = sqlx::query(&status).fetch_one(&mut connection);
    row.await.unwrap().get::<String, _>(1).parse().unwrap()
}

fn mysql_url(url: &str) -> String {
    url.replacen("mariadb://", "mysql://", 1)
}

/// The URL of a real server, if this run has it.
///
/// # Panics
/// If it is missing and `LOCKHOUSE_TEST_FULL` is set.
pub fn server_url(variable: &str) -> Option<String> {
    if let Ok(url) = std::env::var(variable) {
        return Some(url);
    }
    assert!(
        std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
        "{variable} is not set, and a full run leaves nothing out; use scripts/test"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Past the test harness's capture, so that it is seen.
    let _ = writeln!(
        std::io::stderr(),
        "left out: {test} ({variable} is not set)"
    );
    None
}
