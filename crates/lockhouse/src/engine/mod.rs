//! The engine: many callers share few transactions.
//!
//! A call becomes a [`Command`] in the [`queue`]. A free [`lane`] takes a batch of commands that share semaphores, and the
//! store decides all of them in one transaction. [`apply`] reads the outcomes. A call that finds no room and may wait
//! stands in the [waiting line](waiting); it is queued again when permits come back in this process, or when the
//! [`poller`] finds that they came back through another one.
//!
//! The store keeps the promises. The engine makes them fast, and keeps a part of P11: the order of the callers in this
//! process. It registers its first waiters in the line that the store keeps of all processes.
//!
//! | term | meaning |
//! |---|---|
//! | lane | one transaction under way; a semaphore is in one lane at a time |
//! | batch | the commands of one lane |
//! | waiter | a call that found no room and stands in the waiting line |
//! | blocked | a command that needs a row which another transaction keeps locked |
//! | grant cache | what this process knows of requests that were asked for here |
//! | poller | the task that reads what other processes changed, for all waiters |
//! | publisher | writes the list of waiters that other processes and people read |

mod apply;
mod blocked;
mod driver;
mod epoch;
mod grant_cache;
mod lane;
mod lapsed;
mod listings;
mod lock_poller;
mod opportunistic_sweep;
mod poller;
mod publisher;
mod queue;
mod reply_to;
mod retries;
mod retry;
mod templates;
mod tokens;
mod upkeep;
mod wait_handle;
mod waiting;

use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Cursor, FullStore, Held, Holders, Kind, Page, Waiter};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, Count, Definition, ExternalId, NamePrefix, Owner, Refusal,
    Reply, Request, Semaphore, SemaphoreName,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::error::unexpected;
use crate::upkeep::Health;
use crate::{Error, SemaphoreStatus};
use driver::Driver;
use grant_cache::GrantCache;
use lapsed::{Ending, Looked};
use listings::Listings;
use opportunistic_sweep::SweepTimer;
use reply_to::Answer;
use retries::Retries;
use waiting::Wait;

/// How often a refused call looks for lapsed requests. Other callers may take the permits that it
/// frees.
const LOOKS: u32 = 4;

/// How long a process that shuts down takes at most to leave the lines of all processes.
const LEFT_WITHIN: Duration = Duration::from_millis(500);
const LOOKED_AT_EVERY: Duration = Duration::from_millis(2);

/// How often a waiting call checks that the poller runs.
const POLLER_CHECKED_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Engine {
    store: Arc<dyn FullStore>,
    driver: Driver,
    listings: Listings,
    shared: Arc<Shared>,
}

/// State that calls and lanes share.
#[derive(Debug)]
struct Shared {
    grants: GrantCache,
    looked: Looked,
    ending: Ending,
    sweep_timer: SweepTimer,
    /// Wakes the poller when a call begins to wait.
    someone_new: Notify,
    upkeep: Mutex<Health>,
    retries: Arc<Retries>,
}

/// The semaphores that a command touches, and the permits that it will free.
#[derive(Debug, Default)]
struct Touches {
    semaphores: Vec<SemaphoreName>,
    frees: Vec<(SemaphoreName, Count)>,
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn FullStore>) -> Self {
        let retries = Arc::<Retries>::default();
        let shared = Arc::new(Shared {
            grants: GrantCache::new(),
            looked: Looked::default(),
            ending: Ending::default(),
            sweep_timer: SweepTimer::new(),
            someone_new: Notify::new(),
            upkeep: Mutex::default(),
            retries: Arc::clone(&retries),
        });
        let driver = Driver::new(Arc::clone(&store), Arc::clone(&shared));
        Self {
            store,
            driver,
            listings: Listings::new(retries),
            shared,
        }
    }

    /// A call to the store that needs nothing of the engine.
    fn on_store<F>(
        &self,
        mut call: impl FnMut(Arc<dyn FullStore>) -> F + Send + 'static,
    ) -> impl FnMut() -> F + Send + 'static {
        let store = Arc::clone(&self.store);
        move || call(Arc::clone(&store))
    }

    /// Sets how many calls may wait for room. Further calls are refused as overloaded.
    pub(crate) fn limit_waiters(&self, most: usize) {
        self.driver.state().waiting.most = most;
    }

    /// How often calls to the store were tried again.
    pub(crate) fn retries(&self) -> &Retries {
        &self.shared.retries
    }

    /// The state of the upkeep in this process.
    pub(crate) fn upkeep(&self) -> MutexGuard<'_, Health> {
        let health = self.shared.upkeep.lock();
        health.unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `command`, and tries again as long as lapsed permits may have been in its way. It is
    /// refused only if a look for lapsed requests found none and no room since (P10), or if other
    /// callers were quicker each time. All tries share one deadline.
    async fn submit(&self, command: Command) -> Result<Reply, Error> {
        let deadline = retry::deadline();
        let mut looks = 0;
        loop {
            let refused = match self.submit_once(command.clone(), deadline).await {
                Err(Error::Refused(refused)) if looks < LOOKS => refused,
                other => return other,
            };
            let full = match &refused {
                Refusal::Exhausted(full) => full.as_slice(),
                Refusal::SemaphoreInUse { name, .. } => slice::from_ref(name),
                _ => return Err(refused.into()),
            };
            let is_free = |semaphore: &Semaphore| self.has_room(semaphore, &command);
            if !self.end_lapsed(full, is_free, deadline).await? {
                return Err(refused.into());
            }
            looks += 1;
        }
    }

    /// Whether `semaphore` has room for `command` and no waiters.
    fn has_room(&self, semaphore: &Semaphore, command: &Command) -> bool {
        let Some(ask) = command.ask() else {
            return semaphore.in_use == 0;
        };
        let mut permits = ask.permits();
        permits
            .any(|(name, count)| *name == semaphore.name && count.value() <= semaphore.available())
            && self.waiting_on(&semaphore.name) == 0
    }

    async fn submit_once(&self, command: Command, deadline: Instant) -> Result<Reply, Error> {
        let touches = self.touches(&command, deadline).await?;
        Ok(self.driver.submit(command, touches, deadline).await??)
    }

    /// The semaphores that `command` touches. An end touches the semaphores of its request, which
    /// the grant cache knows or the store tells. A renewal touches no semaphore, unless it comes
    /// too late.
    async fn touches(&self, command: &Command, deadline: Instant) -> Result<Touches, Error> {
        let Command::End { external_id, .. } = command else {
            if let Some(ask) = command.ask() {
                // Inserted before the grant, so that the release of a caller that gave up is queued
                // behind the ask.
                self.shared.grants.insert(ask);
            }
            return Ok(Touches {
                semaphores: command.semaphores().cloned().collect(),
                frees: Vec::new(),
            });
        };
        let (permits, is_held) = match self.shared.grants.get(external_id) {
            Some(request) => (request.permits, request.is_held),
            None => {
                let read = retry::read(&self.shared.retries, deadline, || {
                    self.store.request(external_id)
                })
                .await?;
                let live = read.filter(Request::is_live);
                (live.as_ref().map_or_else(Vec::new, permits), true)
            }
        };
        Ok(Touches {
            semaphores: permits.iter().map(|(name, _)| name.clone()).collect(),
            frees: if is_held { permits } else { Vec::new() },
        })
    }

    async fn existing(&self, name: &SemaphoreName, deadline: Instant) -> Result<Semaphore, Error> {
        let semaphore = retry::read(&self.shared.retries, deadline, || {
            self.store.semaphore(name)
        })
        .await?;
        Ok(semaphore.ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?)
    }

    /// An ask with a wait is repeated while other processes keep the store busy. Repeating is safe,
    /// also after a lost answer (P5), and the ask keeps its place.
    async fn acquire(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        self.sweep_if_due();
        if Wait::of(wait) == Wait::No {
            return self.submit(Command::acquire(ask)).await;
        }
        let begun = Instant::now();
        loop {
            let left = wait.saturating_sub(begun.elapsed());
            match self.acquire_waiting(ask.clone(), left).await {
                Err(Error::Store(error)) if error.is_busy() && begun.elapsed() < wait => {}
                other => return other,
            }
        }
    }

    async fn acquire_waiting(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        let (command, wait) = (Command::acquire(ask), Wait::of(wait));
        let deadline = retry::deadline();
        let touches = self.touches(&command, deadline).await?;
        match self.driver.ask(command, touches, wait, deadline).await? {
            Answer::Decided(outcome) => Ok(outcome??),
            Answer::Waits(handle) => {
                self.start_poller();
                let outcome = handle.outcome();
                tokio::pin!(outcome);
                loop {
                    match timeout(POLLER_CHECKED_EVERY, &mut outcome).await {
                        Ok(outcome) => return Ok(outcome??),
                        // The poller may have ended with its runtime.
                        Err(_) if !self.driver.state().has_poller => self.start_poller(),
                        Err(_) => {}
                    }
                }
            }
            Answer::Overloaded => Err(Error::Overloaded),
        }
    }

    /// How many calls of this process wait for `name`.
    fn waiting_on(&self, name: &SemaphoreName) -> u32 {
        self.driver.state().waiting.on(name)
    }

    /// The status of `semaphore`, with the number of its waiters here and at other processes.
    fn status(&self, semaphore: Semaphore) -> SemaphoreStatus {
        let state = self.driver.state();
        let elsewhere = semaphore.line.waiting_elsewhere(state.waiting.process);
        let waiting = state.waiting.on(&semaphore.name).saturating_add(elsewhere);
        SemaphoreStatus { semaphore, waiting }
    }
}

/// The calls of a [`Backend`](crate::backend::Backend).
impl Engine {
    pub(crate) async fn execute(&self, command: Command, wait: Duration) -> Result<Reply, Error> {
        match command {
            Command::Acquire { ask, .. } => self.acquire(ask, wait).await,
            other => self.submit(other).await,
        }
    }

    pub(crate) async fn define(
        &self,
        definition: Definition,
    ) -> Result<(SemaphoreStatus, bool), Error> {
        match self.submit(Command::Define(definition)).await? {
            Reply::Defined { semaphore, created } => Ok((self.status(semaphore), created)),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error> {
        let semaphore = self.existing(name, retry::deadline()).await?;
        Ok(self.status(semaphore))
    }

    pub(crate) async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        let deadline = retry::deadline();
        let semaphores = self.existing_semaphores(prefix, page, deadline);
        let semaphores = semaphores.await?.into_iter();
        Ok(semaphores.map(|semaphore| self.status(semaphore)).collect())
    }

    pub(crate) async fn request(&self, external_id: &ExternalId) -> Result<Request, Error> {
        let request = retry::read(&self.shared.retries, retry::deadline(), || {
            self.store.request(external_id)
        })
        .await?;
        let request = request.filter(|request| !request.is_reserved());
        let mut request = request.ok_or_else(|| Refusal::UnknownRequest(external_id.clone()))?;
        request.state = request.seen_state();
        Ok(request)
    }

    pub(crate) async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let deadline = retry::deadline();
        if let Some(name) = &of.on {
            self.existing(name, deadline).await?;
        }
        self.held(of, page, deadline).await
    }

    pub(crate) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let deadline = retry::deadline();
        self.existing(name, deadline).await?;
        let name = name.clone();
        let list = self.on_store(move |store| {
            let name = name.clone();
            async move { store.history(&name, limit).await }
        });
        self.listings.read(deadline, list).await
    }

    pub(crate) async fn waiting(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error> {
        self.waiters(name).await
    }

    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        match self.ready().await {
            Err(Error::Store(error)) if error.kind() == Kind::Schema => {}
            ready => return ready,
        }
        // A migration of a large table may take a while.
        retry::read(&self.shared.retries, retry::long_deadline(), || {
            self.store.migrate()
        })
        .await
    }

    pub(crate) async fn ready(&self) -> Result<(), Error> {
        retry::read(&self.shared.retries, retry::deadline(), || {
            self.store.ready()
        })
        .await
    }

    pub(crate) async fn goodbye(&self, owner: &Owner) -> Result<u64, Error> {
        let by_itself = || Cause::Released {
            by: Some(owner.clone()),
        };
        self.end_owner(owner, by_itself).await
    }

    pub(crate) async fn leave_lines(&self) {
        let left = async {
            while self.driver.state().waiting.has_deregistrations() {
                sleep(LOOKED_AT_EVERY).await;
            }
        };
        // If this fails, the other processes pass over this one.
        let _ = timeout(LEFT_WITHIN, left).await;
    }
}

fn permits(request: &Request) -> Vec<(SemaphoreName, Count)> {
    let permits = request.permits.iter();
    permits
        .map(|permit| (permit.semaphore.clone(), permit.count))
        .collect()
}
