//! The calls of a [`Backend`](crate::backend::Backend), and the tries and looks that they take.

use std::slice;
use std::time::Duration;

use lockhouse_core::store::{Cursor, Held, Holders, Kind, Page, Waiter};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, Definition, ExternalId, NamePrefix, Owner, Refusal, Reply,
    Request, SemaphoreName, SemaphoreRow,
};
use tokio::time::{Instant, sleep, timeout};

use super::call::Submitted;
use super::queue::{Touches, permits};
use super::waiting::Wait;
use super::{Engine, retry};
use crate::error::unexpected;
use crate::{Error, SemaphoreStatus};

/// How often a refused call looks for lapsed requests. Other callers may take the permits that it
/// frees.
const LOOKS: u32 = 4;

/// How long a process that shuts down takes at most to leave the lines of all processes.
const LEFT_WITHIN: Duration = Duration::from_millis(500);
const LOOKED_AT_EVERY: Duration = Duration::from_millis(2);

/// How often a waiting call checks that the poller runs.
const POLLER_CHECKED_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Does `command`, and tries again as long as lapsed permits may have been in its way. It is
    /// refused only if a look for lapsed requests found none and no room since (P10), or if other
    /// callers were quicker each time. All tries share one deadline.
    pub(crate) async fn execute(&self, command: Command) -> Result<Reply, Error> {
        let deadline = retry::deadline();
        let mut looks = 0;
        loop {
            let refused = match self.submit(command.clone(), deadline).await {
                Err(Error::Refused(refused)) if looks < LOOKS => refused,
                other => return other,
            };
            let full = match &refused {
                Refusal::Exhausted(full) => full.as_slice(),
                Refusal::SemaphoreInUse { name, .. } => slice::from_ref(name),
                _ => return Err(refused.into()),
            };
            let is_free = |semaphore: &SemaphoreRow| self.has_room(semaphore, &command);
            if !self.end_lapsed(full, is_free, deadline).await? {
                return Err(refused.into());
            }
            looks += 1;
        }
    }

    /// Whether `semaphore` has room for `command` and no waiters.
    fn has_room(&self, semaphore: &SemaphoreRow, command: &Command) -> bool {
        let Some(ask) = command.ask() else {
            return semaphore.in_use == 0;
        };
        let mut permits = ask.permits();
        permits
            .any(|(name, count)| *name == semaphore.name && count.value() <= semaphore.available())
            && self.waiting_on(&semaphore.name) == 0
    }

    async fn submit(&self, command: Command, deadline: Instant) -> Result<Reply, Error> {
        let touches = self.touches(&command, deadline).await?;
        Ok(self.decide(command, touches, deadline).await??)
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
                let read = self
                    .retry
                    .read(deadline, || self.store.request(external_id))
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

    /// An ask with a wait is repeated while other processes keep the store busy. Repeating is safe,
    /// also after a lost answer (P5), and the ask keeps its place.
    pub(crate) async fn acquire(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        self.sweep_if_due();
        if wait.is_zero() {
            return self.execute(Command::acquire(ask)).await;
        }
        retry::while_busy(wait, |left| self.acquire_waiting(ask.clone(), left)).await
    }

    async fn acquire_waiting(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        let wait = Wait::of(wait, Instant::now());
        let command = Command::acquire(ask);
        let deadline = retry::deadline();
        let touches = self.touches(&command, deadline).await?;
        match self
            .decide_or_wait(command, touches, wait, deadline)
            .await?
        {
            Submitted::Decided(outcome) => Ok(outcome?),
            Submitted::Waits(handle) => {
                // The lane that parked the call may be gathering calls. The poller begins before that ends.
                self.perform();
                let outcome = handle.outcome();
                tokio::pin!(outcome);
                loop {
                    match timeout(POLLER_CHECKED_EVERY, &mut outcome).await {
                        Ok(outcome) => return Ok(outcome??),
                        // The poller may have ended with its runtime.
                        Err(_) => self.perform(),
                    }
                }
            }
        }
    }
}

/// The calls of a [`Backend`](crate::backend::Backend).
impl Engine {
    pub(crate) async fn define(
        &self,
        definition: Definition,
    ) -> Result<(SemaphoreStatus, bool), Error> {
        match self.execute(Command::Define(definition)).await? {
            Reply::Defined { semaphore, created } => Ok((self.status(semaphore).await?, created)),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error> {
        let semaphore = self.existing(name, retry::deadline()).await?;
        self.status(semaphore).await
    }

    pub(crate) async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        let deadline = retry::deadline();
        let semaphores = self.shared.listings.semaphores(prefix, page, deadline);
        Ok(self.statuses(semaphores.await?).await)
    }

    pub(crate) async fn request(&self, external_id: &ExternalId) -> Result<Request, Error> {
        let request = self
            .retry
            .read(retry::deadline(), || self.store.request(external_id))
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
        self.shared.listings.held(of, page, deadline).await
    }

    pub(crate) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let deadline = retry::deadline();
        self.existing(name, deadline).await?;
        self.shared.listings.history(name, limit, deadline).await
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
        self.retry
            .read(retry::long_deadline(), || self.store.migrate())
            .await
    }

    pub(crate) async fn ready(&self) -> Result<(), Error> {
        self.retry
            .read(retry::deadline(), || self.store.ready())
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
            while self.state().waiting.has_deregistrations() {
                sleep(LOOKED_AT_EVERY).await;
            }
        };
        // If this fails, the other processes pass over this one.
        let _ = timeout(LEFT_WITHIN, left).await;
    }
}
