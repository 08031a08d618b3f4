//! A write that only a holder can make, in the writer's own transaction, on MySQL or MariaDB.
//!
//! Lockhouse's tables are in the same database, so the transaction asks them itself: is this
//! request still held? It asks last, and its lock keeps the answer true until the commit:
//! a command that would end the hold waits for it.
//!
//! `LOCKHOUSE_URL=mysql://app@db/lockhouse cargo run --example fenced_mysql`

use std::error::Error;

use lockhouse::caller::{SqlDialect, held_sql};
use lockhouse::{ExternalId, Lockhouse};
use sqlx::{Connection as _, Executor as _, MySqlConnection};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("LOCKHOUSE_URL")?).await
}

/// Pays 10 into account 1, and publishes a report.
pub async fn run(url: &str) -> Result<()> {
    let lockhouse = Lockhouse::connect(url).await?;
    lockhouse.define("tellers", 4).await?;
    let mut database = MySqlConnection::connect(url).await?;
    for sql in TABLES {
        database.execute(sql).await?;
    }

    let teller = lockhouse.semaphore("tellers").acquire().await?;
    deposit(&mut database, teller.external_id(), 1, 10).await?;
    teller.release().await?;

    let editor = lockhouse.mutex("editor").lock().await?;
    if !publish(&mut database, editor.fence("editor"), "all is well").await? {
        return Err("somebody who came later has published".into());
    }
    editor.release().await?;
    Ok(())
}

/// Pays `amount` into an account if `holder` is still held when that is committed, or else
/// fails and does nothing. Right at any capacity.
pub async fn deposit(
    database: &mut MySqlConnection,
    holder: &ExternalId,
    account: i32,
    amount: i64,
) -> sqlx::Result<()> {
    let mut transaction = database.begin().await?;
    sqlx::query("UPDATE account SET balance = balance + ? WHERE id = ?")
        .bind(amount)
        .bind(account)
        .execute(&mut *transaction)
        .await?;
    // Fails unless it is held, and then the drop rolls back.
    sqlx::query(held_sql(SqlDialect::MySql))
        .bind(holder.as_str())
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

/// Writes unless somebody has who was granted the mutex later. That needs nothing of Lockhouse's
/// where the report lies, and is right for a mutex only; whether it did.
pub async fn publish(
    database: &mut MySqlConnection,
    fence: u64,
    report: &str,
) -> sqlx::Result<bool> {
    let publish = "UPDATE report SET body = ?, fence = ? WHERE id = 1 AND fence <= ?";
    let done = sqlx::query(publish)
        .bind(report)
        .bind(fence)
        .bind(fence)
        .execute(database)
        .await?;
    Ok(done.rows_affected() == 1)
}

const TABLES: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS report (id INT PRIMARY KEY, body TEXT, fence BIGINT UNSIGNED NOT NULL)",
    "INSERT IGNORE INTO account VALUES (1, 0)",
    "INSERT IGNORE INTO report VALUES (1, '', 0)",
];
