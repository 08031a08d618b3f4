//! Shared parts of the strategies that count: permits in rows, counted under the semaphore's lock.

use super::client::At;
use super::sql::Trouble;
use crate::history::Asked;

/// The table of semaphores.
pub(super) const SEMAPHORES: &str = "CREATE TABLE lockhouse_lab_semaphore (
    name VARCHAR(190) PRIMARY KEY, capacity BIGINT NOT NULL)";

/// The tables of semaphores, and of held permits.
pub(super) const TABLES: &[&str] = &[
    SEMAPHORES,
    "CREATE TABLE lockhouse_lab_permit (
        id {serial}, semaphore VARCHAR(190) NOT NULL, holder VARCHAR(190) NOT NULL,
        permits INT NOT NULL DEFAULT 1, UNIQUE (semaphore, holder))",
];

/// Locks a semaphore, and returns its capacity.
pub(super) async fn lock(at: &mut At, semaphore: &str) -> Result<i64, Trouble> {
    let sql = "SELECT capacity FROM lockhouse_lab_semaphore WHERE name = ? {for_update}";
    Ok(at.sql.number(sql, &[&semaphore]).await?.unwrap_or(0))
}

/// How many permits of the semaphore are held.
pub(super) async fn count(at: &mut At, semaphore: &str) -> Result<i64, Trouble> {
    let sql = "SELECT COUNT(*) FROM lockhouse_lab_permit WHERE semaphore = ?";
    Ok(at.sql.number(sql, &[&semaphore]).await?.unwrap_or(0))
}

/// Whether `holder` holds a permit.
pub(super) async fn is_held(at: &mut At, holder: &str) -> Result<bool, Trouble> {
    let sql = "SELECT COUNT(*) FROM lockhouse_lab_permit WHERE holder = ?";
    Ok(at.sql.number(sql, &[&holder]).await? > Some(0))
}

pub(super) async fn insert(at: &mut At, semaphore: &str, holder: &str) -> Result<bool, Trouble> {
    let sql = "INSERT INTO lockhouse_lab_permit (semaphore, holder) VALUES (?, ?)";
    at.sql.run(sql, &[&semaphore, &holder]).await?;
    Ok(true)
}

pub(super) async fn delete(at: &mut At, holder: &str) -> Result<bool, Trouble> {
    let sql = "DELETE FROM lockhouse_lab_permit WHERE holder = ?";
    Ok(at.sql.run(sql, &[&holder]).await? > 0)
}

/// Locks, counts and inserts, in one transaction.
pub(super) async fn grant(at: &mut At, asked: &Asked, holder: &str) -> Result<bool, Trouble> {
    at.sql.begin().await?;
    let done = async {
        let semaphore = &asked.permits[0].0;
        let capacity = lock(at, semaphore).await?;
        Ok(count(at, semaphore).await? < capacity && insert(at, semaphore, holder).await?)
    };
    let done = done.await;
    at.finish(done).await
}
