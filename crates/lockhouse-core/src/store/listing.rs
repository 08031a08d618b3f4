//! Listings, page by page.

use std::fmt;

use async_trait::async_trait;

use super::{Cursor, Error, Held};
use crate::{CapacityChange, NamePrefix, Owner, Request, SemaphoreName, SemaphoreRow};

/// A page of a listing: where it begins, and its size.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// The page begins after this key, or without it at the first.
    pub after: Option<K>,
    /// The most rows of the page.
    pub limit: u32,
}

/// A filter for live requests. A request must match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Only those that hold permits of this semaphore.
    pub on: Option<SemaphoreName>,
    /// Only those of this owner.
    pub owner: Option<Owner>,
}

impl Holders {
    /// Those that hold permits of `name`.
    pub fn on(name: SemaphoreName) -> Self {
        Self {
            on: Some(name),
            owner: None,
        }
    }

    /// Whether they include `request`.
    pub fn include(&self, request: &Request) -> bool {
        let holds = |name: &SemaphoreName| request.permits.iter().any(|p| p.semaphore == *name);
        let is_owned = |owner: &Owner| request.owner.as_ref() == Some(owner);
        request.is_live()
            && self.on.as_ref().is_none_or(holds)
            && self.owner.as_ref().is_none_or(is_owned)
    }
}

/// Lists the rows of a store.
///
/// # Contract
/// - A listing reads committed rows, waits for no lock, and ends within 10 s.
/// - A page has at most [`Page::limit`] rows. Its cost does not depend on the rows before or after
///   it.
/// - A row that exists throughout a walk over all pages is on exactly one of them. A row that is
///   added or removed meanwhile is on at most one.
/// - A page of requests may be shorter than its limit, or empty, although more follow, since a
///   store reads a bounded number of rows for each page. [`Held::next`] says whether more follow.
#[async_trait]
pub trait Listing: fmt::Debug + Send + Sync + 'static {
    /// Semaphores that are not deleted, in byte order of their names. With `prefix`, only those
    /// whose names begin with it.
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error>;

    /// All rows of semaphores, including those that are deleted, in byte order of their names.
    async fn semaphores_ever(&self, page: &Page<SemaphoreName>)
    -> Result<Vec<SemaphoreRow>, Error>;

    /// Live requests, in an order that the store chooses.
    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error>;

    /// The latest changes of the capacity of `name`, newest first, at most `limit`.
    async fn history(&self, name: &SemaphoreName, limit: u32)
    -> Result<Vec<CapacityChange>, Error>;
}
