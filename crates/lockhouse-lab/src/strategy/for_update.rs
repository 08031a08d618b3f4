//! A mutex in a row, taken under SELECT … FOR UPDATE, with a time to live.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::sql::{Server, Trouble, Value};
use crate::history::{Asked, Promise};

/// A client that finds the row free or expired writes its name into it. A client whose name is
/// still there renews.
pub(super) struct ForUpdate;

#[async_trait]
impl Strategy for ForUpdate {
    fn name(&self) -> &'static str {
        "for-update-ttl"
    }

    fn about(&self) -> &'static str {
        "a row taken under SELECT FOR UPDATE, with a TTL; renewed by the owner written there"
    }

    fn breaks(&self) -> Promise {
        Promise::P4
    }

    fn runs_on(&self, server: Server) -> bool {
        server != Server::Sqlite
    }

    fn counts(&self) -> bool {
        false
    }

    fn expires(&self) -> bool {
        true
    }

    fn tables(&self) -> &'static [&'static str] {
        &["CREATE TABLE lockhouse_lab_mutex (
            name VARCHAR(190) PRIMARY KEY, holder VARCHAR(190), expires_at BIGINT NOT NULL)"]
    }

    async fn define(&self, at: &mut At, semaphore: &str, _: i64) -> Result<(), Trouble> {
        let sql = "INSERT INTO lockhouse_lab_mutex (name, expires_at) VALUES (?, 0)";
        at.sql.run(sql, &[&semaphore]).await.map(drop)
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        at.sql.begin().await?;
        let done = async {
            let name = &asked.permits[0].0;
            let look = "SELECT expires_at FROM lockhouse_lab_mutex WHERE name = ? {for_update}";
            let expires_at = at.sql.number(look, &[name]).await?.unwrap_or(0);
            let write = "UPDATE lockhouse_lab_mutex SET holder = ?, expires_at = {now} + ? \
                         WHERE name = ? AND ? <= {now}";
            let ttl = asked.ttl();
            let values: [&dyn Value; 4] = [&asked.id, &ttl, name, &expires_at];
            Ok(at.sql.run(write, &values).await? > 0)
        };
        let done = done.await;
        at.finish(done).await
    }

    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let sql = "UPDATE lockhouse_lab_mutex SET expires_at = {now} + ? WHERE holder = ?";
        Ok(at.sql.run(sql, &[&ttl_us, &id]).await? > 0)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        let sql = "UPDATE lockhouse_lab_mutex SET holder = NULL, expires_at = 0 WHERE holder = ?";
        Ok(at.sql.run(sql, &[&id]).await? > 0)
    }
}
