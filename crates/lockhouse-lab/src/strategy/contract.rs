//! The trait of hand-written locks.

use async_trait::async_trait;

use super::client::At;
use super::sql::{Server, Trouble};
use crate::history::{Asked, Promise};

/// A way to hold a permit by SQL.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// The name of the lock.
    fn name(&self) -> &'static str;

    /// A description in one line.
    fn about(&self) -> &'static str;

    /// The promise that the strategy is expected to break.
    fn breaks(&self) -> Promise;

    /// Whether the strategy can be written for `server`.
    fn runs_on(&self, server: Server) -> bool {
        let _ = server;
        true
    }

    /// Whether one acquire may name several semaphores.
    fn takes_several(&self) -> bool {
        false
    }

    /// Whether it can hand out more than one permit.
    fn counts(&self) -> bool {
        true
    }

    /// Whether its grants have a time to live.
    fn expires(&self) -> bool {
        false
    }

    /// Whether it breaks only on several nodes of a cluster.
    fn takes_nodes(&self) -> bool {
        false
    }

    /// Statements that create its tables.
    fn tables(&self) -> &'static [&'static str];

    /// Creates a semaphore.
    async fn define(&self, at: &mut At, semaphore: &str, capacity: i64) -> Result<(), Trouble> {
        let sql = "INSERT INTO lockhouse_lab_semaphore (name, capacity) VALUES (?, ?)";
        at.sql.run(sql, &[&semaphore, &capacity]).await.map(drop)
    }

    /// Takes the permits that are asked for, if there is room.
    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble>;

    /// Renews the permits of `id`. Returns whether they were held.
    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let _ = (at, id, ttl_us);
        Ok(false)
    }

    /// Releases the permits of `id`. Returns whether there were any.
    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble>;

    /// The periodic job that goes with the lock.
    async fn sweep(&self, at: &mut At) -> Result<(), Trouble> {
        let _ = at;
        Ok(())
    }
}
