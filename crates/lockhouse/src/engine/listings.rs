//! Listings of what callers may see.
//!
//! A page leaves out Lockhouse's own rows, and is filled up with what follows. The store may look at many rows for few;
//! a page that takes [`LONG`] is answered as far as it came, and says where the next begins.

use std::time::Duration;

use lockhouse_core::store::{Cursor, Held, Holders, Page};
use lockhouse_core::{NamePrefix, Request, Semaphore, SemaphoreName};
use tokio::time::Instant;

use super::{Engine, is_our_own};
use crate::Error;

/// How long rows are looked for before a page is answered with fewer.
const LONG: Duration = Duration::from_secs(2);

impl Engine {
    /// Semaphores that callers may see.
    pub(super) async fn existing_semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
        deadline: Instant,
    ) -> Result<Vec<Semaphore>, Error> {
        let (mut rows, mut after) = (Vec::new(), page.after.clone());
        loop {
            let limit = page.limit - rows.len() as u32;
            let (prefix, part) = (prefix.cloned(), Page { after, limit });
            let list = self.on_store(move |store| {
                let (prefix, part) = (prefix.clone(), part.clone());
                async move { store.semaphores(prefix.as_ref(), &part).await }
            });
            let more = self.listings.read(deadline, list).await?;
            let is_last = more.len() < limit as usize;
            after = more.last().map(|semaphore| semaphore.name.clone());
            let visible = more.into_iter().filter(|row| !row.name.is_reserved());
            rows.extend(visible);
            if is_last || rows.len() >= page.limit as usize {
                return Ok(rows);
            }
        }
    }

    /// Live requests that callers may see. Callers can't name the reserved semaphores; the upkeep can.
    pub(super) async fn held(
        &self,
        of: &Holders,
        page: &Page<Cursor>,
        deadline: Instant,
    ) -> Result<Held, Error> {
        let shows = |request: &Request| of.on.is_some() || !is_our_own(request);
        let begun = Instant::now();
        let (mut requests, mut after) = (Vec::new(), page.after);
        loop {
            let limit = page.limit - requests.len() as u32;
            let (of, part) = (of.clone(), Page { after, limit });
            let list = self.on_store(move |store| {
                let (of, part) = (of.clone(), part.clone());
                async move { store.holders(&of, &part).await }
            });
            let more = self.listings.read(deadline, list).await?;
            requests.extend(more.requests.into_iter().filter(shows));
            let is_full = requests.len() >= page.limit as usize || begun.elapsed() >= LONG;
            if is_full || more.next.is_none() {
                let next = more.next;
                return Ok(Held { requests, next });
            }
            after = more.next;
        }
    }
}
