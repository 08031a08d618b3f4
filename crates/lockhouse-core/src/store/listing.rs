//! Listings, page by page.

use std::fmt;

use async_trait::async_trait;

use super::{Cursor, Error, Held};
use crate::{CapacityChange, NamePrefix, Owner, Semaphore, SemaphoreName};

/// A piece of a listing.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// Begin after this key; without it, at the first.
    pub after: Option<K>,
    /// At most so many.
    pub limit: u32,
}

/// Which live requests are listed: those that match all that is given.
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
}

/// Lists what a store keeps.
///
/// # Contract
/// - A listing sees what is committed, waits for no lock, and ends within 10 s.
/// - A page has at most [`Page::limit`] rows, and costs what it has: neither the rows before it nor those after it.
/// - What is there throughout a walk over all pages is on exactly one of them. What comes or goes meanwhile is on one
///   at most.
/// - A page of requests may be shorter than its limit, even empty, though more follow: a store looks at a bounded number
///   of rows for each. [`Held::next`] says whether more follow.
#[async_trait]
pub trait Listing: fmt::Debug + Send + Sync + 'static {
    /// Semaphores that are not deleted, in byte order of their names; with `prefix`, only those whose names
    /// begin with it.
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<Semaphore>, Error>;

    /// Semaphores, those too that are deleted or were only made ready, in byte order of their names.
    async fn semaphores_ever(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error>;

    /// Live requests, in an order of the store's own.
    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error>;

    /// The latest changes of the capacity of `name`, newest first, at most `limit`.
    async fn history(&self, name: &SemaphoreName, limit: u32)
    -> Result<Vec<CapacityChange>, Error>;
}
