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

use lockhouse_core::store::{self, Cursor, FullStore, Held, Holders, Page, Shown, ShownAt};
use lockhouse_core::{CapacityChange, NamePrefix, Request, SemaphoreName, SemaphoreRow, State};
use tokio::sync::{self, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::retry::Retry;
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

/// The listings of one engine, and their turns: first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Listings {
    store: Arc<dyn FullStore>,
    retry: Arc<Retry>,
    turns: Arc<sync::Semaphore>,
    line: Arc<sync::Semaphore>,
}

impl Listings {
    pub(super) fn new(store: Arc<dyn FullStore>, retry: Arc<Retry>) -> Self {
        Self {
            store,
            retry,
            turns: Arc::new(sync::Semaphore::new(AT_ONCE)),
            line: Arc::new(sync::Semaphore::new(AT_ONCE + IN_LINE)),
        }
    }

    /// Waits for a turn and reads, with retries, before `deadline`.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many listings wait for a turn, or the turn does not come in
    /// time.
    async fn read<T, F>(
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
        let (retry, line) = (Arc::clone(&self.retry), Arc::clone(&self.line));
        tokio::spawn(async move {
            let begun = Instant::now();
            // The caller may have gone away.
            let _ = answer.send(retry.read(deadline, call).await);
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

impl Listings {
    /// Semaphores that callers may see.
    pub(super) async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
        deadline: Instant,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let (mut rows, mut after) = (Vec::new(), page.after.clone());
        loop {
            let limit = page.limit - rows.len() as u32;
            let (prefix, part) = (prefix.cloned(), Page { after, limit });
            let list = self.on_store(move |store| {
                let (prefix, part) = (prefix.clone(), part.clone());
                async move { store.semaphores(prefix.as_ref(), &part).await }
            });
            let more = self.read(deadline, list).await?;
            let is_last = more.len() < limit as usize;
            after = more.last().map(|semaphore| semaphore.name.clone());
            let visible = more.into_iter().filter(|row| !row.name.is_reserved());
            rows.extend(visible);
            if is_last || rows.len() >= page.limit as usize {
                return Ok(rows);
            }
        }
    }

    /// The latest changes of a semaphore's capacity.
    pub(super) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
        deadline: Instant,
    ) -> Result<Vec<CapacityChange>, Error> {
        let name = name.clone();
        let list = self.on_store(move |store| {
            let name = name.clone();
            async move { store.history(&name, limit).await }
        });
        self.read(deadline, list).await
    }

    /// The lists of waiters for `name` that processes have published.
    pub(super) async fn shown(
        &self,
        name: &SemaphoreName,
        deadline: Instant,
    ) -> Result<Shown, Error> {
        let name = name.clone();
        let list = self.on_store(move |store| {
            let name = name.clone();
            async move { store.shown(&name).await }
        });
        self.read(deadline, list).await
    }

    /// When the lists of waiters for `names` were written.
    pub(super) async fn shown_at(
        &self,
        names: &[SemaphoreName],
        deadline: Instant,
    ) -> Result<ShownAt, Error> {
        let names = names.to_vec();
        let list = self.on_store(move |store| {
            let names = names.clone();
            async move { store.shown_at(&names).await }
        });
        self.read(deadline, list).await
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
            let more = self.read(deadline, list).await?;
            requests.extend(more.requests.into_iter().filter(shows));
            let is_full = requests.len() >= page.limit as usize || begun.elapsed() >= LONG;
            if is_full || more.next.is_none() {
                let next = more.next;
                return Ok(Held { requests, next });
            }
            after = more.next;
        }
    }

    /// A call to the store, which can be made again.
    fn on_store<F>(
        &self,
        mut call: impl FnMut(Arc<dyn FullStore>) -> F + Send + 'static,
    ) -> impl FnMut() -> F + Send + 'static {
        let store = Arc::clone(&self.store);
        move || call(Arc::clone(&store))
    }
}
