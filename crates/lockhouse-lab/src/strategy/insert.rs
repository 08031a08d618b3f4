//! INSERT as the lock.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// The client that inserts the row has the lock. Deleting the row releases it.
pub(super) struct Insert;

#[async_trait]
impl Strategy for Insert {
    fn name(&self) -> &'static str {
        "insert"
    }

    fn about(&self) -> &'static str {
        "INSERT as the lock: the client that inserts the row has it; release is DELETE"
    }

    fn breaks(&self) -> Promise {
        Promise::P10
    }

    fn counts(&self) -> bool {
        false
    }

    fn tables(&self) -> &'static [&'static str] {
        &["CREATE TABLE lockhouse_lab_lock (name VARCHAR(190) PRIMARY KEY, holder VARCHAR(190))"]
    }

    async fn define(&self, _: &mut At, _: &str, _: i64) -> Result<(), Trouble> {
        Ok(())
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let sql = "INSERT INTO lockhouse_lab_lock (name, holder) VALUES (?, ?)";
        match at.sql.run(sql, &[&asked.permits[0].0, &asked.id]).await {
            Err(Trouble::Duplicate) => Ok(false),
            done => done.map(|_| true),
        }
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        let sql = "DELETE FROM lockhouse_lab_lock WHERE holder = ?";
        Ok(at.sql.run(sql, &[&id]).await? > 0)
    }
}
