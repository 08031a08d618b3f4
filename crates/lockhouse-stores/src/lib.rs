//! The stores of Lockhouse, one folder each. [`open`] opens one by its URL.
//!
//! Every store loads a footprint, calls [`decide`](lockhouse_core::decide()) and saves the changes.
//! On MySQL, MariaDB and PostgreSQL it locks the rows first, in SQLite the file, in memory a mutex.
//! On Redis it locks nothing, and saves only if no loaded row has changed. No store decides a
//! command itself.
//!
//! A new store needs a folder, a feature, and a line in [`open`]. The page "Stores" in
//! `docs/how-it-works` has the steps, and names what its tests need. A store on another SQL server
//! needs only a `Driver` and a `Dialect`, in `sql`.

mod batch;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod bulkhead;
pub mod caller;
mod credentials;
#[cfg(any(
    feature = "sqlite",
    feature = "mysql",
    feature = "postgres",
    feature = "redis"
))]
mod lapsed;
mod lists;
mod memory;
mod misconfigured;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(
    feature = "sqlite",
    feature = "mysql",
    feature = "postgres",
    feature = "redis"
))]
mod shown;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod time;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod walk;

use std::sync::Arc;

use lockhouse_core::store::{Error, FullStore};

use misconfigured::configuration;

pub use credentials::{refuse_misplaced, without_credentials};
pub use memory::{Memory, MemoryTransaction};
#[cfg(feature = "mysql")]
pub use mysql::{MySql, mysql_options};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, postgres_options};
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use sql::Sql;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

/// Opens a store by its URL: `memory:`, `sqlite:PATH`, `mysql://…`, `mariadb://…`, `postgres://…`,
/// `postgresql://…`, `redis://…` or `rediss://…`.
///
/// It does not connect yet; the first call does. `memory:` is a new store every time.
///
/// # Errors
/// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) if the URL is malformed, or names a store that is unknown or not built
/// in.
pub fn open(url: &str) -> Result<Arc<dyn FullStore>, Error> {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(Sqlite::open(url)?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(MySql::open(url)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(Postgres::open(url)?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Arc::new(Redis::open(url)?)),
        // The message does not repeat the URL, which may contain a password.
        _ => Err(configuration(
            "this build knows no store by such a URL; try sqlite:PATH, mysql://USER@HOST/NAME, \
             postgres://USER@HOST/NAME or redis://HOST",
        )),
    }
}
