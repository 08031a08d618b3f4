//! Lockhouse in a transaction of the caller, where Lockhouse's tables are in the caller's database.
//!
//! A [`Permit`](crate::Permit) is a lease, and a holder can be paused between its last check and its write. If the write
//! goes to the database that has Lockhouse's tables, the same transaction can make sure of the hold:
//!
//! - **held** fails unless the request is held, and keeps anybody from ending it until the transaction ends.
//! - **finish** fails unless the request is held, and ends it with the commit: the permits return with the
//!   commit, not before and not without it. After a rollback they are still held.
//!
//! Held means: granted and not ended, not finished, not past its expiry by the database's clock, and kept by its
//! owner's session if the owner has one. This is right at any capacity, and needs no fence.
//!
//! Both lock the request's own row until the transaction ends, and no row of a semaphore. Renewals, releases and the end
//! of this request wait for it; calls for other requests do not ([P13]). Ask last, and commit at once. While the row
//! is locked, the renewals of the permit cannot get through, so [`Permit::lost`](crate::Permit::lost) may resolve though the
//! transaction is safe.
//!
//! After a commit with *finish*, [`Permit::release`](crate::Permit::release) or a drop wakes waiters sooner. Without that
//! they find the permits within half a second.
//!
//! # The statements
//!
//! [`held_sql`] and [`finish_sql`] are the text, for every driver and language. The one parameter is the request's
//! `external_id`. If the request is not held, the statement fails, and its error contains `lockhouse_not_held`; then roll back.
//!
//! - Run the transaction at READ COMMITTED. At REPEATABLE READ, the default of MySQL and MariaDB, PostgreSQL and MariaDB 11.6
//!   and newer fail if the request was renewed since the transaction's first read. MySQL and MariaDB lock the gap around an id
//!   that does not exist, MariaDB also the gap before one that does: nobody can make a request with an id in it meanwhile. And
//!   *finish* locks the owner's session as well there, so that its heartbeats wait.
//! - On SQLite begin with `BEGIN IMMEDIATE`. The transaction holds the file's only write lock, so everybody waits for it.
//! - On a cluster that takes writes on several nodes, send these transactions to the node that Lockhouse uses: row locks
//!   are local to a node. *finish* writes the row, so that it and an end on another node collide, and one of the two fails
//!   at its commit. *held* writes nothing, and does not collide.
//! - On SQLite run the statements: sqlx and Lockhouse link two copies of SQLite, and one program cannot have both.
//! - Redis has no such transaction.
//!
//! # In Rust
//!
//! With the features `sqlx-0-8`, `sqlx-0-9` and `tokio-postgres`, [`Permit::held_in`](crate::Permit::held_in) and
//! [`Permit::finish_in`](crate::Permit::finish_in) take a transaction of that driver; [`held`] and [`finish`] do the same by
//! the request's id.
//!
//! ```
//! # #[cfg(feature = "sqlx-0-8")]
//! # async fn pay(database: &mut sqlx::PgConnection, permit: lockhouse::Permit) -> Result<(), Box<dyn std::error::Error>> {
//! use sqlx::Connection as _;
//!
//! let mut transaction = database.begin().await?;
//! sqlx::query("UPDATE account SET balance = balance + 10 WHERE id = 1")
//!     .execute(&mut *transaction)
//!     .await?;
//! permit.finish_in(&mut transaction).await?; // fails if the hold was lost, and the drop rolls back
//! transaction.commit().await?;
//! permit.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [P13]: https://github.com/lockhouse/lockhouse/blob/main/docs/concepts/promises.md

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use lockhouse_core::ExternalId;
pub use lockhouse_core::SqlDialect;
use lockhouse_stores::caller::NOT_HELD;
pub use lockhouse_stores::caller::{finish as finish_sql, held as held_sql};

/// A transaction of the caller, by one of the drivers that a feature of this crate names. It is sealed: for other drivers
/// run the [statements](held_sql).
///
/// A function of yours can take any of them:
///
/// ```
/// use lockhouse::caller::{self, SqlTransaction};
///
/// async fn check<T: SqlTransaction>(
///     transaction: &mut T,
///     permit: &lockhouse::Permit,
/// ) -> Result<(), caller::Error<T::Error>> {
///     permit.held_in(transaction).await
/// }
/// ```
pub trait SqlTransaction: sealed::Run {}

/// Why a transaction must not commit; `E` is the driver's error.
///
/// ```
/// use lockhouse::caller;
///
/// fn report<E: std::fmt::Display>(error: &caller::Error<E>) {
///     match error {
///         caller::Error::NotHeld { external_id } => eprintln!("{external_id} lost its permits"),
///         caller::Error::Driver(error) => eprintln!("the database failed: {error}"),
///         _ => eprintln!("the transaction must not commit"),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The request is not held: it is unknown, has ended, was finished or has expired, or its owner's session has lapsed.
    NotHeld {
        /// The request.
        external_id: ExternalId,
    },
    /// The driver failed.
    Driver(E),
}

impl<E> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld { external_id } => write!(
                f,
                "request \"{external_id}\" is not held; roll the transaction back"
            ),
            Self::Driver(_) => {
                f.write_str("the database could not say whether the request is held")
            }
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::NotHeld { .. } => None,
            Self::Driver(error) => Some(error),
        }
    }
}

/// Makes sure that the request is held, and that nobody ends it until `transaction` ends.
///
/// # Errors
/// [`Error::NotHeld`] if it is not, [`Error::Driver`]. Roll back then: on PostgreSQL the transaction can do nothing else.
pub async fn held<T: SqlTransaction>(
    transaction: &mut T,
    external_id: &ExternalId,
) -> Result<(), Error<T::Error>> {
    let run = transaction.run(external_id, held_sql).await;
    run.map(drop).map_err(|error| told::<T>(error, external_id))
}

/// Finishes the request with the commit of `transaction`.
///
/// ```
/// # #[cfg(feature = "tokio-postgres")]
/// # async fn pay(
/// #     database: &mut tokio_postgres::Client,
/// #     id: &lockhouse::ExternalId,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use lockhouse::caller;
///
/// let mut transaction = database.transaction().await?;
/// transaction.execute("UPDATE account SET balance = balance + 10 WHERE id = 1", &[]).await?;
/// caller::finish(&mut transaction, id).await?; // fails if the hold was lost, and the drop rolls back
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NotHeld`] if it is not held, [`Error::Driver`]. Nothing was done then; roll back.
pub async fn finish<T: SqlTransaction>(
    transaction: &mut T,
    external_id: &ExternalId,
) -> Result<(), Error<T::Error>> {
    let run = transaction.run(external_id, finish_sql).await;
    match run.map_err(|error| told::<T>(error, external_id))? {
        // On MySQL and MariaDB, if the request was purged at that moment.
        0 => Err(not_held(external_id)),
        _ => Ok(()),
    }
}

fn not_held<E>(external_id: &ExternalId) -> Error<E> {
    Error::NotHeld {
        external_id: external_id.clone(),
    }
}

fn told<T: SqlTransaction>(error: T::Error, external_id: &ExternalId) -> Error<T::Error> {
    match T::says(&error).is_some_and(|text| text.contains(NOT_HELD)) {
        true => not_held(external_id),
        false => Error::Driver(error),
    }
}

mod sealed {
    use super::{ExternalId, Future, SqlDialect};

    /// The statements by one driver.
    pub trait Run {
        /// The driver's.
        type Error;

        /// Runs the statement that `sql` has for the database. Returns how many rows it wrote, or
        /// how many it answered on PostgreSQL.
        fn run(
            &mut self,
            external_id: &ExternalId,
            sql: fn(SqlDialect) -> &'static str,
        ) -> impl Future<Output = Result<u64, Self::Error>> + Send;

        /// The database's message in `error`, if it is the database's.
        fn says(error: &Self::Error) -> Option<&str>;
    }
}

/// For a database of a version of sqlx.
#[cfg(any(feature = "sqlx-0-8", feature = "sqlx-0-9"))]
macro_rules! by_sqlx {
    ($sqlx:ident: $($database:ident as $dialect:ident),+) => {$(
        impl SqlTransaction for $sqlx::Transaction<'_, $sqlx::$database> {}

        impl sealed::Run for $sqlx::Transaction<'_, $sqlx::$database> {
            type Error = $sqlx::Error;

            async fn run(
                &mut self,
                external_id: &ExternalId,
                sql: fn(SqlDialect) -> &'static str,
            ) -> $sqlx::Result<u64> {
                let query = $sqlx::query(sql(SqlDialect::$dialect)).bind(external_id.as_str());
                Ok(query.execute(&mut **self).await?.rows_affected())
            }

            fn says(error: &$sqlx::Error) -> Option<&str> {
                error.as_database_error().map(|error| error.message())
            }
        }
    )+};
}

// MariaDB takes the same text.
#[cfg(feature = "sqlx-0-8")]
by_sqlx!(sqlx: MySql as MySql, Postgres as Postgres);

#[cfg(feature = "sqlx-0-9")]
by_sqlx!(sqlx_0_9: MySql as MySql, Postgres as Postgres);

#[cfg(feature = "tokio-postgres")]
impl SqlTransaction for tokio_postgres::Transaction<'_> {}

#[cfg(feature = "tokio-postgres")]
impl sealed::Run for tokio_postgres::Transaction<'_> {
    type Error = tokio_postgres::Error;

    async fn run(
        &mut self,
        external_id: &ExternalId,
        sql: fn(SqlDialect) -> &'static str,
    ) -> Result<u64, tokio_postgres::Error> {
        let sql = sql(SqlDialect::Postgres);
        self.execute(sql, &[&external_id.as_str()]).await
    }

    fn says(error: &tokio_postgres::Error) -> Option<&str> {
        error.as_db_error().map(|error| error.message())
    }
}
