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

    /// The promise that it is here for.
    fn breaks(&self) -> Promise;

    /// Where it can be written like that.
    fn runs_on(&self, server: Server) -> bool {
        let _ = server;
        true
    }

    /// Whether it takes several semaphores at once.
    fn takes_several(&self) -> bool {
        false
    }

    /// Whether it can hand out more than one permit.
    fn counts(&self) -> bool {
        true
    }

    /// Whether what it grants has a time to live.
    fn expires(&self) -> bool {
        false
    }

    /// Whether it takes several nodes of a cluster to see what is wrong with it.
    fn takes_nodes(&self) -> bool {
        false
    }

    /// Statements that make what it needs.
    fn tables(&self) -> &'static [&'static str];

    /// Makes a semaphore known.
    async fn define(&self, at: &mut At, semaphore: &str, capacity: i64) -> Result<(), Trouble> {
        let sql = "INSERT INTO lockhouse_lab_semaphore (name, capacity) VALUES (?, ?)";
        at.sql.run(sql, &[&semaphore, &capacity]).await.map(drop)
    }

    /// Takes what is asked for, if there is room.
    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble>;

    /// Pushes the expiry of what `id` holds; whether it was held.
    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let _ = (at, id, ttl_us);
        Ok(false)
    }

    /// Gives back what `id` holds; whether there was something.
    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble>;

    /// The periodic job that goes with the lock.
    async fn sweep(&self, at: &mut At) -> Result<(), Trouble> {
        let _ = at;
        Ok(())
    }
}
