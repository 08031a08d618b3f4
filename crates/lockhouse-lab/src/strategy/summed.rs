//! SELECT FOR UPDATE of the semaphore's row, and a SUM of what is held.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::{Server, Trouble};
use crate::history::{Asked, Promise};

/// Written as in articles. It is correct on one server. On a cluster each node locks for itself, and the locked row is not
/// written, so the nodes find no conflict.
pub(super) struct Summed;

#[async_trait]
impl Strategy for Summed {
    fn name(&self) -> &'static str {
        "for-update-sum"
    }

    fn about(&self) -> &'static str {
        "SELECT FOR UPDATE, SUM of what is held, INSERT; on several nodes of a cluster"
    }

    fn breaks(&self) -> Promise {
        Promise::P1
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
        at.sql.begin().await?;
        let done = async {
            let semaphore = &asked.permits[0].0;
            let capacity = counted::lock(at, semaphore).await?;
            let sql = "SELECT CAST(COALESCE(SUM(permits), 0) AS SIGNED) FROM lockhouse_lab_permit \
                       WHERE semaphore = ?";
            let held = at.sql.number(sql, &[semaphore]).await?.unwrap_or(0);
            at.meet.others().await;
            Ok(held < capacity && counted::insert(at, semaphore, &asked.id).await?)
        };
        let done = done.await;
        at.finish(done).await
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
