//! A store in this process's memory, for tests and experiments. Its content is lost on exit.

mod due;
mod grant_order;
mod rows;
mod templates;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{
    Batch, Connections, Cursor, Due, Error, Held, Holders, Listing, Maintenance, Migration,
    NewToken, Notification, Page, Purge, SHOWN_FOR, Shown, ShownAt, ShownWaiter, Stale, Store,
    TokenList, Tokens, Waiter, WaitingList, transact_at_once,
};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, NamePrefix, Outcome, Owner, ProcessId, Recount, Request,
    SemaphoreName, SemaphoreRow, Timestamp, Token, TokenName,
};

use crate::batch::MAX_BATCH;
use crate::lists;
use crate::time::before;
use rows::{Rows, after};
pub use transaction::MemoryTransaction;

/// Keeps permits in this process's memory. One mutex is its lock. Its clock is this machine's,
/// unless it is given another.
pub struct Memory {
    rows: Mutex<Rows>,
    shown: Mutex<Lists>,
    tokens: Mutex<lists::Tokens>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

/// The waiters that each process published for a semaphore, and when.
type Lists = BTreeMap<(SemaphoreName, ProcessId), (Timestamp, Vec<Waiter>)>;

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_clock(now)
    }

    /// An empty store with the clock `clock`. Tests set it, and need not wait until a TTL is over:
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// use lockhouse_core::store::{Batch, transact_at_once};
    /// use lockhouse_core::{
    ///     Ask, Capacity, Command, Count, Definition, EndReason, Refusal, Timestamp, Ttl,
    /// };
    /// use lockhouse_stores::Memory;
    ///
    /// let clock = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
    /// let told = Arc::clone(&clock);
    /// let store = Memory::with_clock(move || *told.lock().unwrap());
    ///
    /// let define = Definition::new("backup-slots".parse()?, Capacity::new(1)?);
    /// let mut ask = Ask::new("job-7".parse()?, [("backup-slots".parse()?, Count::ONE)])?;
    /// ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
    /// let commands = vec![Command::Define(define), Command::acquire(ask)];
    /// let outcomes = transact_at_once(&mut store.begin(), &Batch::new(commands))?;
    /// assert!(outcomes.iter().all(Result::is_ok));
    ///
    /// *clock.lock().unwrap() += Duration::from_secs(61);
    /// let renew = Command::Renew { external_id: "job-7".parse()?, ttl: None, by: None };
    /// let batch = Batch::new(vec![renew]);
    /// let loaded = store.begin().load(&batch.footprint);
    /// assert_eq!(loaded.requests["job-7"].lapse(loaded.now), Some(EndReason::Expired));
    /// let outcomes = transact_at_once(&mut store.begin(), &batch)?;
    /// assert!(matches!(outcomes[0], Err(Refusal::RequestEnded { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `Lockhouse::with_store` takes such a store too.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            rows: Mutex::default(),
            shown: Mutex::default(),
            tokens: Mutex::default(),
            clock: Box::new(clock),
        }
    }

    /// Locks the rows. They are written only after all code that could panic, so the rows behind a
    /// poisoned lock are consistent.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, for a caller that reads or writes the rows itself, such as a layer that tests a program with odd
    /// rows. All other calls to the store wait until the transaction is dropped.
    ///
    /// ```
    /// use lockhouse_core::Footprint;
    /// use lockhouse_stores::Memory;
    ///
    /// let store = Memory::new();
    /// let footprint = Footprint {
    ///     semaphores: ["backup-slots".parse()?].into(),
    ///     ..Footprint::default()
    /// };
    /// let loaded = store.begin().load(&footprint);
    /// assert!(loaded.semaphores.is_empty());
    /// # Ok::<(), lockhouse_core::Invalid>(())
    /// ```
    pub fn begin(&self) -> MemoryTransaction<'_> {
        MemoryTransaction::new(self.rows(), &*self.clock)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// The time in whole microseconds, as all stores keep it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Memory {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        transact_at_once(&mut self.begin(), batch)
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    /// This store has no row locks.
    async fn locked(&self, _: &Footprint) -> Result<Footprint, Error> {
        Ok(Footprint::default())
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        Ok(self
            .rows()
            .semaphores
            .get(name)
            .filter(|semaphore| semaphore.exists())
            .cloned())
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let rows = self.rows();
        let found = names.iter().filter_map(|name| rows.semaphores.get(name));
        Ok(found
            .filter(|semaphore| semaphore.exists())
            .cloned()
            .collect())
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        Ok(self.rows().requests.get(external_id).cloned())
    }

    async fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    /// This store has none.
    fn connections(&self) -> Connections {
        Connections::default()
    }
}

#[async_trait]
impl Listing for Memory {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let rows = self.rows();
        let prefix = prefix.map_or("", NamePrefix::as_str);
        let begin = match &page.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let rest = rows.semaphores.range::<str, _>((begin, Bound::Unbounded));
        let existing = rest
            .map(|(_, semaphore)| semaphore)
            .take_while(|semaphore| semaphore.name.as_str().starts_with(prefix))
            .filter(|semaphore| semaphore.exists());
        Ok(existing.take(page.limit as usize).cloned().collect())
    }

    async fn semaphores_ever(
        &self,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let rows = self.rows();
        let rest = rows.semaphores.range((after(page), Bound::Unbounded));
        let rest = rest.map(|(_, semaphore)| semaphore);
        Ok(rest.take(page.limit as usize).cloned().collect())
    }

    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        Ok(self.rows().holders(of, page))
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let rows = self.rows();
        let newest_first = rows.capacity_changes.iter().rev();
        let of_it = newest_first.filter(|change| change.semaphore == *name);
        Ok(of_it.take(limit as usize).cloned().collect())
    }
}

#[async_trait]
impl Maintenance for Memory {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        let now = (self.clock)();
        let rows = self.rows();
        Ok(rows.due(which, limit as usize, now))
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        Ok(self.rows().stale(age, page, (self.clock)()))
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let rows = self.rows();
        let live = rows.requests.values().filter(|request| request.is_live());
        let owners: BTreeSet<_> = live.filter_map(|request| request.owner.clone()).collect();
        let rest = owners.range((after(page), Bound::Unbounded));
        Ok(rest.take(page.limit as usize).cloned().collect())
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        Ok(self.rows().purge(what, limit as usize, (self.clock)()))
    }

    async fn recount(&self) -> Result<Recount, Error> {
        let rows = self.rows();
        let recounted = rows
            .semaphores
            .values()
            .map(|semaphore| rows.recounted(semaphore));
        let torn = rows.requests.values().filter(|request| request.is_torn());
        let torn = torn.map(|request| request.external_id.clone());
        Ok(Recount {
            semaphores: recounted.collect(),
            torn: torn.take(Recount::MOST_TORN).collect(),
        })
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let mut rows = self.rows();
        let Some(was) = rows.semaphores.get(name).cloned() else {
            return Ok(None);
        };
        let is = rows.recounted(&was).repaired();
        let off = is != was;
        rows.semaphores.insert(name.clone(), is);
        Ok(off.then_some(was))
    }
}

#[async_trait]
impl WaitingList for Memory {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let now = (self.clock)();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, waiters) in waiting {
            let waiters = waiters.iter().map(|waiter| waiter.clone().at(now));
            shown.insert((name.clone(), process), (now, waiters.collect()));
        }
        for name in gone {
            shown.remove(&(name.clone(), process));
        }
        Ok(())
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        let now = (self.clock)();
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // The id of nobody comes before all others.
        let first = (name.clone(), ProcessId::NOBODY);
        let of_it = shown.range(first..).take_while(|((of, _), _)| of == name);
        let oldest = before(now, SHOWN_FOR);
        let fresh = of_it.filter(|(_, (written, _))| *written >= oldest);
        let processes = fresh.map(|((_, process), (_, waiters))| (*process, waiters.clone()));
        Ok(Shown {
            now,
            processes: processes.collect(),
        })
    }

    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
        let now = (self.clock)();
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = names.iter().flat_map(|name| {
            let first = (name.clone(), ProcessId::new(0));
            let of_it = shown
                .range(first..)
                .take_while(move |((of, _), _)| of == name);
            of_it.map(|((name, process), (written, _))| (name.clone(), *process, *written))
        });
        Ok(ShownAt {
            now,
            lists: lists.collect(),
        })
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        let cutoff = before((self.clock)(), age);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let old = shown.extract_if(.., |_, (written, _)| *written <= cutoff);
        Ok(old.take(limit as usize).count() as u64)
    }
}

#[async_trait]
impl Tokens for Memory {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        let now = (self.clock)();
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(TokenList {
            now,
            tokens: lists::page(&tokens, page),
        })
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        let now = (self.clock)();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(lists::add_token(&mut tokens, token, now))
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        let now = (self.clock)();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(lists::revoke(&mut tokens, name, now))
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        let rows = self.rows();
        let is_in_use = |owner: &&Owner| {
            rows.owners.contains_key(*owner)
                || !rows.due(Due::OwnedBy(owner), 1, Timestamp::MIN).is_empty()
        };
        Ok(owners.iter().filter(is_in_use).cloned().collect())
    }
}

#[async_trait]
impl Notification for Memory {
    /// This store has no notifications.
    async fn changed(&self, _: &BTreeSet<SemaphoreName>, _: ProcessId) -> BTreeSet<SemaphoreName> {
        std::future::pending().await
    }
}

#[async_trait]
impl Migration for Memory {
    async fn migrate(&self) -> Result<(), Error> {
        Ok(())
    }
}
