//! A row that draws a number, which is the place in the line and the fence.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::{Server, Trouble};
use crate::history::{Asked, Promise};

/// The fence is the AUTO_INCREMENT id of the row. Each node of a cluster counts by itself, so a later grant through
/// another node may have a lower fence.
pub(super) struct SerialFence;

#[async_trait]
impl Strategy for SerialFence {
    fn name(&self) -> &'static str {
        "auto-increment-fence"
    }

    fn about(&self) -> &'static str {
        "INSERT, and the row's AUTO_INCREMENT id is the place and the fence; on several nodes"
    }

    fn breaks(&self) -> Promise {
        Promise::P7
    }

    fn runs_on(&self, server: Server) -> bool {
        server == Server::MySql
    }

    fn takes_nodes(&self) -> bool {
        true
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let semaphore = &asked.permits[0].0;
        counted::insert(at, semaphore, &asked.id).await?;
        let id = "SELECT id FROM lockhouse_lab_permit WHERE semaphore = ? AND holder = ?";
        at.fence = at.sql.number(id, &[semaphore, &asked.id]).await?;
        let ahead = "SELECT COUNT(*) FROM lockhouse_lab_permit WHERE semaphore = ? AND id <= ?";
        let place = at.fence.unwrap_or_default();
        let ahead = at.sql.number(ahead, &[semaphore, &place]).await?;
        let capacity = "SELECT capacity FROM lockhouse_lab_semaphore WHERE name = ?";
        if ahead <= at.sql.number(capacity, &[semaphore]).await? {
            return Ok(true);
        }
        counted::delete(at, &asked.id).await?;
        Ok(false)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
