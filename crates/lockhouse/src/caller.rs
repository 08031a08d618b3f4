//! Lockhouse in a transaction of the caller, where Lockhouse's tables are in the caller's database.
//!
//! A [`Permit`](crate::Permit) is a lease, and a holder can be paused between its last check and its write. If the write
//! goes to the database that has Lockhouse's tables, the same transaction can make sure of the hold:
//!
//! - **held** succeeds only while the request is held, and keeps anybody from ending it until the transaction ends.
//! - **finish** succeeds only while the request is held, and ends it with the commit: the permits return with the
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
//! `external_id`. The statement answers or writes one row, or none if the request is not held; then roll back.
//!
//! - Run the transaction at READ COMMITTED. At REPEATABLE READ, the default of MySQL and MariaDB, PostgreSQL and MariaDB 11.6
//!   and newer fail if the request was renewed since the transaction's first read. MySQL and MariaDB lock the gap around an id
//!   that does not exist, MariaDB also the gap before one that does: nobody can make a request with an id in it meanwhile. And
//!   *finish* locks the owner's session as well there, so that its heartbeats wait.
//! - On SQLite begin with `BEGIN IMMEDIATE`. The transaction holds the file's only write lock, so everybody waits for it.
//! - On a cluster that takes writes on several nodes, send these transactions to the node that Lockhouse uses: row locks
//!   are local to a node. *finish* writes the row, so that it and an end on another node collide, and one of the two fails
//!   at its commit. *held* writes nothing, and does not collide.
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
//! if !permit.finish_in(&mut transaction).await? {
//!     return Err("the hold was lost; nothing was paid".into()); // the drop rolls back
//! }
//! transaction.commit().await?;
//! permit.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [P13]: https://github.com/lockhouse/lockhouse/blob/main/docs/concepts/promises.md

use std::future::Future;

use lockhouse_core::ExternalId;
pub use lockhouse_core::SqlDialect;
pub use lockhouse_stores::caller::{finish as finish_sql, held as held_sql};

/// A transaction of the caller, by one of the drivers that a feature of this crate names. It is sealed: for other drivers
/// run the [statements](held_sql).
pub trait Transaction: sealed::Run {}

/// Whether the request is held; if so, nobody ends it until `transaction` ends.
///
/// # Errors
/// Those of the driver. Roll back then.
pub async fn held<T: Transaction>(
    transaction: &mut T,
    external_id: &ExternalId,
) -> Result<bool, T::Error> {
    transaction.held(external_id).await
}

/// Finishes the request with the commit of `transaction`; false if it is not held, and then nothing was done.
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
/// if !caller::finish(&mut transaction, id).await? {
///     return Err("the hold was lost; nothing was paid".into()); // the drop rolls back
/// }
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of the driver. Roll back then.
pub async fn finish<T: Transaction>(
    transaction: &mut T,
    external_id: &ExternalId,
) -> Result<bool, T::Error> {
    transaction.finish(external_id).await
}

mod sealed {
    use super::{ExternalId, Future};

    /// The statements by one driver.
    pub trait Run {
        /// The driver's.
        type Error;

        fn held(
            &mut self,
            external_id: &ExternalId,
        ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

        fn finish(
            &mut self,
            external_id: &ExternalId,
        ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
    }
}

/// For a database of a version of sqlx.
#[cfg(any(feature = "sqlx-0-8", feature = "sqlx-0-9"))]
macro_rules! by_sqlx {
    ($sqlx:ident: $($database:ident as $dialect:ident),+) => {$(
        impl Transaction for $sqlx::Transaction<'_, $sqlx::$database> {}

        impl sealed::Run for $sqlx::Transaction<'_, $sqlx::$database> {
            type Error = $sqlx::Error;

            async fn held(&mut self, external_id: &ExternalId) -> $sqlx::Result<bool> {
                let held = $sqlx::query(held_sql(SqlDialect::$dialect)).bind(external_id.as_str());
                Ok(held.fetch_optional(&mut **self).await?.is_some())
            }

            async fn finish(&mut self, external_id: &ExternalId) -> $sqlx::Result<bool> {
                let finish = $sqlx::query(finish_sql(SqlDialect::$dialect));
                let done = finish.bind(external_id.as_str()).execute(&mut **self).await?;
                Ok(done.rows_affected() == 1)
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
impl Transaction for tokio_postgres::Transaction<'_> {}

#[cfg(feature = "tokio-postgres")]
impl sealed::Run for tokio_postgres::Transaction<'_> {
    type Error = tokio_postgres::Error;

    async fn held(&mut self, external_id: &ExternalId) -> Result<bool, tokio_postgres::Error> {
        let sql = held_sql(SqlDialect::Postgres);
        let held = self.query_opt(sql, &[&external_id.as_str()]).await?;
        Ok(held.is_some())
    }

    async fn finish(&mut self, external_id: &ExternalId) -> Result<bool, tokio_postgres::Error> {
        let sql = finish_sql(SqlDialect::Postgres);
        Ok(self.execute(sql, &[&external_id.as_str()]).await? == 1)
    }
}
