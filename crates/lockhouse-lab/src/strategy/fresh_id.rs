//! A fresh id for every try.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::Trouble;
use crate::history::{Asked, Promise};

/// A client whose answer was lost has a permit that it does not know, and asks for another.
pub(super) struct FreshId;

#[async_trait]
impl Strategy for FreshId {
    fn name(&self) -> &'static str {
        "fresh-id"
    }

    fn about(&self) -> &'static str {
        "grant under a lock, with a UUID made for each try"
    }

    fn breaks(&self) -> Promise {
        Promise::P9
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        let fresh = uuid::Uuid::new_v4().to_string();
        let granted = counted::grant(at, asked, &fresh).await?;
        if granted {
            at.aliases.insert(asked.id.clone(), fresh);
        }
        Ok(granted)
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        let holder = at.aliases.remove(id).unwrap_or_default();
        counted::delete(at, &holder).await
    }
}
