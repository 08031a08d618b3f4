//! Listings read many rows, so only a few run at once. The store's other connections stay free for
//! holders and waiters.
//!
//! Each listing runs in a separate task. If its caller goes away, it keeps its turn until the store
//! has answered, so callers that disconnect early do not pile up.
//!
//! Many short listings in a row would keep the processors busy instead. So while others wait for a
//! turn, a turn pauses after a listing for [`REST`] times as long as that took.
//!
//! A page leaves out Lockhouse's own rows and takes the rows after them instead. The store may read
//! many rows for a short page. A page that takes longer than [`LONG`] is returned short, with the
//! cursor of the next.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{self, Cursor, Held, Holders, Page};
use lockhouse_core::{NamePrefix, Request, Semaphore, SemaphoreName, State};
use tokio::sync::{self, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::{Engine, retries::Retries, retry};
use crate::Error;

/// Listings use at most two of a database's 16 connections.
const AT_ONCE: usize = 2;

/// How many listings may wait for a turn, and for how long.
const IN_LINE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// While others wait, a turn pauses for this multiple of its listing's time, up to a maximum.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How long the engine looks for rows before it returns a short page.
const LONG: Duration = Duration::from_secs(2);

/// The turns of the listings of one engine, first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Listings {
    retries: Arc<Retries>,
    turns: Arc<sync::Semaphore>,
    line: Arc<sync::Semaphore>,
}

impl Listings {
    pub(super) fn new(retries: Arc<Retries>) -> Self {
        Self {
            retries,
            turns: Arc::new(sync::Semaphore::new(AT_ONCE)),
            line: Arc::new(sync::Semaphore::new(AT_ONCE + IN_LINE)),
        }
    }

    /// Waits for a turn and reads, with retries, before `deadline`.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many listings wait for a turn, or the turn does not come in
    /// time.
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
        let (line, retries) = (Arc::clone(&self.line), Arc::clone(&self.retries));
        tokio::spawn(async move {
            let begun = Instant::now();
            // The caller may have gone away.
            let _ = answer.send(retry::read(&retries, deadline, call).await);
            drop(place);
            // Other listings wait, beside those that have the other turns.
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
            is_held && (of.on.is_some() || !request.is_reserved())
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
