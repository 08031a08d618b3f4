//! INSERT with a time to live, and a job that sweeps.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// A row that a job deletes after its TTL. A release deletes the lock's row, whether or not it is still the client's own.
pub(super) struct InsertTtl;

#[async_trait]
impl Strategy for InsertTtl {
    fn name(&self) -> &'static str {
        "insert-ttl"
    }

    fn about(&self) -> &'static str {
        "INSERT with a TTL and a sweeper; release deletes the lock by its name"
    }

    fn breaks(&self) -> Promise {
        Promise::P4
    }

    fn counts(&self) -> bool {
        false
    }

    fn expires(&self) -> bool {
        true
    }

    fn tables(&self) -> &'static [&'static str] {
        &["CREATE TABLE lockhouse_lab_lease (
            name VARCHAR(190) PRIMARY KEY, holder VARCHAR(190), expires_at BIGINT NOT NULL)"]
    }

    async fn define(&self, _: &mut At, _: &str, _: i64) -> Result<(), Trouble> {
        Ok(())
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let sql = "INSERT INTO lockhouse_lab_lease (name, holder, expires_at) \
                   VALUES (?, ?, {now} + ?)";
        let (name, ttl) = (&asked.permits[0].0, asked.ttl());
        let done = at.sql.run(sql, &[name, &asked.id, &ttl]).await;
        // The name by which a release finds the row.
        at.aliases.insert(asked.id.clone(), name.clone());
        match done {
            Err(Trouble::Duplicate) => Ok(false),
            done => done.map(|_| true),
        }
    }

    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let sql = "UPDATE lockhouse_lab_lease SET expires_at = {now} + ? \
                   WHERE holder = ? AND expires_at > {now}";
        Ok(at.sql.run(sql, &[&ttl_us, &id]).await? > 0)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        let name = at.aliases.get(id).cloned().unwrap_or_default();
        let sql = "DELETE FROM lockhouse_lab_lease WHERE name = ?";
        Ok(at.sql.run(sql, &[&name]).await? > 0)
    }

    async fn sweep(&self, at: &mut At) -> Result<(), Trouble> {
        let sql = "DELETE FROM lockhouse_lab_lease WHERE expires_at <= {now}";
        at.sql.run(sql, &[]).await.map(drop)
    }
}
