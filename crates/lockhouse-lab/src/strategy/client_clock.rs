//! Expiry by the clients' clocks.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// A client whose clock is fast finds the permits of other clients expired.
pub(super) struct ClientClock;

#[async_trait]
impl Strategy for ClientClock {
    fn name(&self) -> &'static str {
        "client-clock"
    }

    fn about(&self) -> &'static str {
        "grant under a lock, with a TTL that goes by the clock of each client"
    }

    fn breaks(&self) -> Promise {
        Promise::P8
    }

    fn expires(&self) -> bool {
        true
    }

    fn tables(&self) -> &'static [&'static str] {
        &[
            counted::SEMAPHORES,
            "CREATE TABLE lockhouse_lab_permit (
                id {serial}, semaphore VARCHAR(190) NOT NULL, holder VARCHAR(190) NOT NULL,
                expires_at BIGINT, UNIQUE (semaphore, holder))",
        ]
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let now = at.own_now_us();
        let sweep = "DELETE FROM lockhouse_lab_permit WHERE semaphore = ? AND expires_at <= ?";
        at.sql.run(sweep, &[&asked.permits[0].0, &now]).await?;
        if counted::is_held(at, &asked.id).await? {
            return Ok(true);
        }
        let granted = counted::grant(at, asked, &asked.id).await?;
        let lasts = "UPDATE lockhouse_lab_permit SET expires_at = ? WHERE holder = ?";
        let until = now + asked.ttl();
        at.sql.run(lasts, &[&until, &asked.id]).await?;
        Ok(granted)
    }

    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let now = at.own_now_us();
        let until = now + ttl_us;
        let sql = "UPDATE lockhouse_lab_permit SET expires_at = ? \
                   WHERE holder = ? AND expires_at > ?";
        Ok(at.sql.run(sql, &[&until, &id, &now]).await? > 0)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
