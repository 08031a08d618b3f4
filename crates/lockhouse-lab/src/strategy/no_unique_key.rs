//! Look for the id first, and trust that look.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// Without a unique key two calls under one id may both find that it is new.
pub(super) struct NoUniqueKey;

#[async_trait]
impl Strategy for NoUniqueKey {
    fn name(&self) -> &'static str {
        "no-unique-key"
    }

    fn about(&self) -> &'static str {
        "look for the id, and grant under a lock if it is new; no unique key on it"
    }

    fn breaks(&self) -> Promise {
        Promise::P5
    }

    fn tables(&self) -> &'static [&'static str] {
        &[
            counted::SEMAPHORES,
            "CREATE TABLE lockhouse_lab_permit (
                id {serial}, semaphore VARCHAR(190) NOT NULL, holder VARCHAR(190) NOT NULL)",
        ]
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let is_held = counted::is_held(at, &asked.id).await?;
        at.meet.others().await;
        Ok(is_held || counted::grant(at, asked, &asked.id).await?)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
