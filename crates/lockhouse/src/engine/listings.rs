//! Listings read many rows, so only a few run at once: they leave the store's connections to those who
//! hold and to those who wait for permits.
//!
//! A listing that has begun goes on in a task of its own when its caller goes away, and keeps its turn
//! until the store has answered. So callers who come and go at once don't add up either.
//!
//! Short listings, one after the other, would take the processors instead. So while others wait for a turn, a turn
//! rests after a listing, for [`REST`] times as long as that took.
//!
//! A page leaves out Lockhouse's own rows, and is filled up with what follows. The store may look at many rows for few;
//! a page that takes [`LONG`] is answered as far as it came, and says where the next begins.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{self, Cursor, Held, Holders, Page};
use lockhouse_core::{NamePrefix, Request, Semaphore, SemaphoreName, State};
use tokio::sync::{self, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::{Engine, is_our_own, retry};
use crate::Error;

/// A server's database has two connections for them at most, out of 16.
const AT_ONCE: usize = 2;

/// So many may wait for their turn, and so long.
const IN_LINE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a turn rests while others wait for it, in times of its listing, and at most.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How long rows are looked for before a page is answered with fewer.
const LONG: Duration = Duration::from_secs(2);

/// The turns of the listings of one engine, first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Listings {
    turns: Arc<sync::Semaphore>,
    line: Arc<sync::Semaphore>,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(sync::Semaphore::new(AT_ONCE)),
            line: Arc::new(sync::Semaphore::new(AT_ONCE + IN_LINE)),
        }
    }

    /// Reads in its turn, again where that can help, before `deadline`.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when too many wait for their turn, or it does not come in time.
    pub(super) async fn read<T, F>(
        &self,
        deadline: Instant,
        call: impl FnMut() -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, store::Error>> + Send + 'static,
    {
        let line = Arc::clone(&self.line).try_acquire_owned();
        let place = line.map_err(|_| Error::Overloaded)?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Error::Overloaded);
        };
        let (answer, answered) = oneshot::channel();
        let line = Arc::clone(&self.line);
        tokio::spawn(async move {
            let begun = Instant::now();
            // Nobody may be there to take it.
            let _ = answer.send(retry::read(deadline, call).await);
            drop(place);
            // More than those who have the other turns.
            if line.available_permits() <= IN_LINE {
                sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
            }
            drop(turn);
        });
        let died = |_| Error::Internal("a listing died".to_owned());
        answered.await.map_err(died)?
    }
}

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
        let shows = |request: &Request| {
            let is_held = request.seen_state() == State::Acquired;
            is_held && (of.on.is_some() || !is_our_own(request))
        };
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
