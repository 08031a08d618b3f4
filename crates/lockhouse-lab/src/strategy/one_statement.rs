//! Lock, count and insert in one statement.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::{Server, Trouble};
use crate::history::{Asked, Promise};

/// On PostgreSQL the statement sees the rows of its beginning, from before it waited for the lock.
pub(super) struct OneStatement;

#[async_trait]
impl Strategy for OneStatement {
    fn name(&self) -> &'static str {
        "one-statement"
    }

    fn about(&self) -> &'static str {
        "one WITH statement that locks, counts and inserts"
    }

    fn breaks(&self) -> Promise {
        Promise::P1
    }

    fn runs_on(&self, server: Server) -> bool {
        server == Server::Postgres
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        if counted::is_held(at, &asked.id).await? {
            return Ok(true);
        }
        at.sql.begin().await?;
        let sql = "WITH locked AS (
                SELECT capacity FROM lockhouse_lab_semaphore WHERE name = ? FOR UPDATE),
            held AS (SELECT COUNT(*) AS permits FROM lockhouse_lab_permit WHERE semaphore = ?)
            INSERT INTO lockhouse_lab_permit (semaphore, holder)
            SELECT ?, ? FROM locked, held WHERE held.permits < locked.capacity";
        let name = &asked.permits[0].0;
        let done = at.sql.run(sql, &[name, name, name, &asked.id]).await;
        // The other clients have sent their statements, and wait for the lock.
        at.meet.others().await;
        at.finish(done.map(|inserted| inserted > 0)).await
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
