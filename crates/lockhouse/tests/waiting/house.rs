//! Clients of a store in memory that counts its calls and may be slow, and their callers.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use lockhouse::store::{
    Batch, Call, Command, Due, Error as StoreError, FullStore, Kind, Layer, Maintenance as _,
    Outcome, Store,
};
use lockhouse::{
    Ask, Count, Error, ExternalId, Lockhouse, Priority, Request, SemaphoreName, Timestamp, Ttl,
};
use lockhouse_core::{ProcessId, SemaphoreRow};
use lockhouse_stores::Memory;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A store in memory that counts calls, and that tests can slow down or make fail.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    memory: Arc<Memory>,
    pub(crate) batches: AtomicUsize,
    pub(crate) commands: AtomicUsize,
    pub(crate) looks: AtomicUsize,
    /// How many semaphores were read without locks, in total.
    pub(crate) names_read: AtomicUsize,
    /// The number of semaphores on which the engine listens.
    pub(crate) listened: AtomicUsize,
    pub(crate) looks_for_lapsed: AtomicUsize,
    pub(crate) shows: AtomicUsize,
    /// How often lists of waiters were read.
    pub(crate) lists_read: AtomicUsize,
    /// Whether lists of waiters are never written from now on.
    pub(crate) never_shows: AtomicBool,
    /// How many milliseconds the answer to a write of a list comes after its commit.
    pub(crate) slow_shows_ms: AtomicU64,
    /// The most microseconds that a batch takes.
    pub(crate) slow_us: AtomicU64,
    /// Whether batches are never decided from now on.
    pub(crate) never: AtomicBool,
    /// Whether batches with ends are never decided from now on.
    pub(crate) never_ends: AtomicBool,
    pub(crate) ends: AtomicUsize,
    /// Whether a batch of several commands is rejected.
    pub(crate) rejects: AtomicBool,
    /// Whether a batch that only writes entries of the line is rejected.
    pub(crate) rejects_stands: AtomicBool,
    pub(crate) notification: Notify,
}

impl Watched {
    /// Another store on the same rows, as of another process.
    pub(crate) fn beside(&self) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(&self.memory),
            ..Self::default()
        })
    }

    /// The number of calls.
    pub(crate) fn asked(&self) -> usize {
        let all = [
            &self.batches,
            &self.looks,
            &self.looks_for_lapsed,
            &self.shows,
            &self.lists_read,
        ];
        all.iter().map(|number| number.load(Ordering::SeqCst)).sum()
    }
}

impl Layer for Watched {
    fn inner(&self) -> &dyn FullStore {
        &*self.memory
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if matches!(call, Call::Show) {
            self.shows.fetch_add(1, Ordering::SeqCst);
            if self.never_shows.load(Ordering::SeqCst) {
                return pending().await;
            }
            let answer = answer.await;
            sleep(Duration::from_millis(
                self.slow_shows_ms.load(Ordering::SeqCst),
            ))
            .await;
            return answer;
        }
        if matches!(call, Call::Shown) {
            self.lists_read.fetch_add(1, Ordering::SeqCst);
        }
        answer.await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, StoreError> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        let looks = |command: &&Command| matches!(command, Command::Stand { .. });
        let commands = batch.commands.iter().filter(|command| !looks(command));
        self.commands.fetch_add(commands.count(), Ordering::SeqCst);
        let ends = |command: &Command| matches!(command, Command::End { .. });
        let ends = batch.commands.iter().any(ends);
        self.ends.fetch_add(usize::from(ends), Ordering::SeqCst);
        let never_ends = self.never_ends.load(Ordering::SeqCst);
        if self.never.load(Ordering::SeqCst) || ends && never_ends {
            return pending().await;
        }
        if self.rejects.load(Ordering::SeqCst) && batch.commands.len() > 1 {
            return Err(StoreError::new(Kind::Rejected, "too many at once"));
        }
        if self.rejects_stands.load(Ordering::SeqCst) && batch.commands.iter().all(|it| looks(&it))
        {
            return Err(StoreError::new(Kind::Rejected, "no entries now"));
        }
        let slow_us = self.slow_us.load(Ordering::SeqCst);
        if slow_us > 0 {
            sleep(Duration::from_micros(fastrand::u64(0..slow_us))).await;
        }
        let outcomes = self.memory.transact(batch).await;
        if slow_us > 0 {
            sleep(Duration::from_micros(fastrand::u64(0..slow_us))).await;
        }
        outcomes
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, StoreError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.names_read.fetch_add(names.len(), Ordering::SeqCst);
        self.memory.named(names).await
    }

    async fn changed(&self, on: &BTreeSet<SemaphoreName>, _: ProcessId) -> BTreeSet<SemaphoreName> {
        self.listened.store(on.len(), Ordering::SeqCst);
        self.notification.notified().await;
        BTreeSet::new()
    }

    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, StoreError> {
        self.looks_for_lapsed.fetch_add(1, Ordering::SeqCst);
        self.memory.due(which, limit).await
    }
}

/// A client of a store with these semaphores, and the store.
pub(crate) async fn house(semaphores: &[(&str, u32)]) -> (Lockhouse, Arc<Watched>) {
    with(Watched::default(), semaphores).await
}

/// The same on a store whose clock is that of the runtime.
pub(crate) async fn house_by_the_clock(semaphores: &[(&str, u32)]) -> (Lockhouse, Arc<Watched>) {
    let (began, then) = (Instant::now(), Timestamp::now());
    let clock = move || {
        let passed = SignedDuration::try_from(began.elapsed()).unwrap();
        then.saturating_add(passed).unwrap()
    };
    let store = Watched {
        memory: Arc::new(Memory::with_clock(clock)),
        ..Watched::default()
    };
    with(store, semaphores).await
}

async fn with(store: Watched, semaphores: &[(&str, u32)]) -> (Lockhouse, Arc<Watched>) {
    let store = Arc::new(store);
    let lockhouse = Lockhouse::with_store(store.clone());
    for (name, capacity) in semaphores {
        lockhouse.define(name, *capacity).await.unwrap();
    }
    (lockhouse, store)
}

pub(crate) fn name(text: &str) -> SemaphoreName {
    SemaphoreName::parse(text).unwrap()
}

pub(crate) fn ask(id: &str, permits: &[(&str, u32)]) -> Ask {
    let permits = permits
        .iter()
        .map(|(on, count)| (name(on), Count::new(*count).unwrap()));
    Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap()
}

pub(crate) fn preferred(priority: i32, mut ask: Ask) -> Ask {
    ask.priority = Priority::new(priority).unwrap();
    ask
}

pub(crate) fn for_ms(ms: u64, mut ask: Ask) -> Ask {
    ask.ttl = Some(Ttl::from_ms(ms).unwrap());
    ask
}

pub(crate) const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// A waiting caller. Dropping it drops its call.
#[derive(Debug)]
pub(crate) struct Caller(JoinHandle<Result<(Request, bool), Error>>);

impl Caller {
    /// Starts a call. Returns when it has reached the engine, and was answered if that takes no time.
    pub(crate) async fn waits(lockhouse: &Lockhouse, ask: Ask, wait: Duration) -> Self {
        let lockhouse = lockhouse.clone();
        let caller = Self(tokio::spawn(
            async move { lockhouse.acquire(ask, wait).await },
        ));
        idle().await;
        caller
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_finished()
    }

    pub(crate) async fn answer(mut self) -> Result<(Request, bool), Error> {
        (&mut self.0).await.unwrap()
    }

    pub(crate) async fn granted(self) -> Request {
        let (request, now) = self.answer().await.unwrap();
        assert!(now, "granted before: {request:?}");
        request
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs all tasks that need not wait for the clock.
pub(crate) async fn idle() {
    for _ in 0..60 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn grant(lockhouse: &Lockhouse, ask: Ask) -> Result<Request, Error> {
    Ok(lockhouse.acquire(ask, Duration::ZERO).await?.0)
}
