//! Lock, then count, under REPEATABLE READ.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::{Server, Sql, Trouble};
use crate::history::{Asked, Promise};

/// The first plain SELECT, which looks for the id, fixes the snapshot that the count sees.
pub(super) struct StaleCount;

#[async_trait]
impl Strategy for StaleCount {
    fn name(&self) -> &'static str {
        "stale-count"
    }

    fn about(&self) -> &'static str {
        "look for the id, SELECT FOR UPDATE, count, INSERT, under REPEATABLE READ"
    }

    fn breaks(&self) -> Promise {
        Promise::P1
    }

    fn runs_on(&self, server: Server) -> bool {
        server != Server::Sqlite
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let set = match at.sql {
            Sql::MySql(_) => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            _ => "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        };
        at.sql.run(set, &[]).await?;
        at.sql.begin().await?;
        let done = async {
            if counted::is_held(at, &asked.id).await? {
                return Ok(true);
            }
            at.meet.others().await;
            let semaphore = &asked.permits[0].0;
            let capacity = counted::lock(at, semaphore).await?;
            let held = counted::count(at, semaphore).await?;
            Ok(held < capacity && counted::insert(at, semaphore, &asked.id).await?)
        };
        let done = done.await;
        at.finish(done).await
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
