//! Count, then insert, without a lock.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// Two clients may count before either inserts.
pub(super) struct UnlockedCount;

#[async_trait]
impl Strategy for UnlockedCount {
    fn name(&self) -> &'static str {
        "unlocked-count"
    }

    fn about(&self) -> &'static str {
        "SELECT COUNT, and INSERT if there is room, without a lock"
    }

    fn breaks(&self) -> Promise {
        Promise::P1
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        if counted::is_held(at, &asked.id).await? {
            return Ok(true);
        }
        let semaphore = &asked.permits[0].0;
        let sql = "SELECT capacity FROM lockhouse_lab_semaphore WHERE name = ?";
        let capacity = at.sql.number(sql, &[semaphore]).await?.unwrap_or(0);
        let held = counted::count(at, semaphore).await?;
        at.meet.others().await;
        Ok(held < capacity && counted::insert(at, semaphore, &asked.id).await?)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
