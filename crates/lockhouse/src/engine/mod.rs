//! The engine: many callers, few transactions.
//!
//! A call becomes a [`Command`] in the queue of the [`lanes`]. A lane takes a batch of commands
//! that share semaphores, and [`attempt`] has the store decide them all in one transaction, again
//! where that can help. A call that finds no room and may wait is parked in [`waiting`] and
//! tries again when permits come back here, or after a while, as they may have come back through
//! another process.
//!
//! None of it is needed for the promises, which the store keeps; it makes them fast.

mod attempt;
mod known;
mod lanes;
mod lapsed;
mod queue;
mod upkeep;
mod waiting;

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{Due, Page, Store};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, Definition, ExternalId, Outcome, Owner, Refusal, Reply,
    Request, Semaphore, SemaphoreName,
};
use tokio::time::Instant;

use crate::Error;
use crate::client::unexpected;
use crate::service::{SemaphoreStatus, Service};
use crate::upkeep::UPKEEP;
use known::Known;
use lanes::Lanes;
use lapsed::Looked;
use waiting::Waiting;

#[derive(Debug)]
pub(crate) struct Engine {
    store: Arc<dyn Store>,
    lanes: Lanes,
    shared: Arc<Shared>,
}

/// What calls and lanes both use.
#[derive(Debug)]
struct Shared {
    known: Known,
    waiting: Waiting,
    looked: Looked,
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let shared = Arc::new(Shared {
            known: Known::new(),
            waiting: Waiting::default(),
            looked: Looked::default(),
        });
        let lanes = Lanes::new(Arc::clone(&store), Arc::clone(&shared));
        Self {
            store,
            lanes,
            shared,
        }
    }

    /// One try; and one more if permits that had lapsed were in its way (P10).
    async fn submit(&self, command: Command) -> Result<Reply, Error> {
        let full = match self.submit_once(command.clone()).await {
            Err(Error::Refused(Refusal::Exhausted(full))) => full,
            Err(Error::Refused(Refusal::SemaphoreInUse { name, in_use })) => {
                if self.end_lapsed(slice::from_ref(&name)).await? {
                    return self.submit_once(command).await;
                }
                return Err(Refusal::SemaphoreInUse { name, in_use }.into());
            }
            other => return other,
        };
        if self.end_lapsed(&full).await? {
            return self.submit_once(command).await;
        }
        Err(Refusal::Exhausted(full).into())
    }

    async fn submit_once(&self, command: Command) -> Result<Reply, Error> {
        let deadline = attempt::deadline();
        let touches = self.touches(&command, deadline).await?;
        if let Command::Acquire(ask) = &command {
            // Before it is granted, so that a release by a caller who gave up comes behind it.
            self.shared.known.insert(&ask.external_id, touches.clone());
        }
        Ok(self.lanes.submit(command, touches, deadline).await??)
    }

    /// The semaphores that `command` touches. For a command on a request they are those that the
    /// request holds: known if it was asked for here, else read.
    async fn touches(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let (Command::Renew { external_id, .. } | Command::End { external_id, .. }) = command
        else {
            return Ok(command.semaphores().cloned().collect());
        };
        if let Some(names) = self.shared.known.semaphores(external_id) {
            return Ok(names);
        }
        let request = attempt::read(deadline, || self.store.request(external_id)).await?;
        let live = request.filter(Request::is_live);
        Ok(live.map_or_else(Vec::new, |request| names(&request)))
    }

    async fn existing(&self, name: &SemaphoreName, deadline: Instant) -> Result<Semaphore, Error> {
        let semaphore = attempt::read(deadline, || self.store.semaphore(name)).await?;
        Ok(semaphore.ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?)
    }

    async fn acquire(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        // A wait too long for the clock is one without an end.
        let until = Instant::now().checked_add(wait);
        let mut place = None;
        loop {
            let full = match self.submit(Command::Acquire(ask.clone())).await {
                Err(Error::Refused(Refusal::Exhausted(full))) if !wait.is_zero() => full,
                other => return other,
            };
            let Some(place) = &mut place else {
                // Permits may have come back before there was a place: try once more at once.
                place = Some(
                    self.shared
                        .waiting
                        .park(ask.permits().map(|(name, _)| name)),
                );
                continue;
            };
            if !place.rung_until(until).await {
                return Err(Refusal::Exhausted(full).into());
            }
        }
    }
}

#[async_trait]
impl Service for Engine {
    async fn execute(&self, command: Command, wait: Duration) -> Result<Reply, Error> {
        match command {
            Command::Acquire(ask) => self.acquire(ask, wait).await,
            other => self.submit(other).await,
        }
    }

    async fn define(&self, definition: Definition) -> Result<(SemaphoreStatus, bool), Error> {
        match self.submit(Command::Define(definition)).await? {
            Reply::Defined { semaphore, created } => {
                let waiting = self.shared.waiting.on(&semaphore.name);
                Ok((SemaphoreStatus { semaphore, waiting }, created))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error> {
        let semaphore = self.existing(name, attempt::deadline()).await?;
        let waiting = self.shared.waiting.on(name);
        Ok(SemaphoreStatus { semaphore, waiting })
    }

    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<SemaphoreStatus>, Error> {
        // One more, in case one of them is Lockhouse's own.
        let more = Page {
            after: page.after.clone(),
            limit: page.limit + 1,
        };
        let semaphores =
            attempt::read(attempt::deadline(), || self.store.semaphores(&more)).await?;
        let theirs = semaphores
            .into_iter()
            .filter(|semaphore| semaphore.name.as_str() != UPKEEP)
            .take(page.limit as usize);
        let status = theirs.map(|semaphore| {
            let waiting = self.shared.waiting.on(&semaphore.name);
            SemaphoreStatus { semaphore, waiting }
        });
        Ok(status.collect())
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Request, Error> {
        let request =
            attempt::read(attempt::deadline(), || self.store.request(external_id)).await?;
        Ok(request.ok_or_else(|| Refusal::UnknownRequest(external_id.clone()))?)
    }

    async fn holders(
        &self,
        on: Option<&SemaphoreName>,
        page: &Page<ExternalId>,
    ) -> Result<Vec<Request>, Error> {
        let deadline = attempt::deadline();
        if let Some(name) = on {
            self.existing(name, deadline).await?;
        }
        // As with semaphores, one more: who holds Lockhouse's own is nobody's business but its own,
        // unless it is asked for by name.
        let more = Page {
            after: page.after.clone(),
            limit: page.limit + u32::from(on.is_none()),
        };
        let holders = attempt::read(deadline, || self.store.holders(on, &more)).await?;
        let theirs = holders
            .into_iter()
            .filter(|request| on.is_some() || !does_upkeep(request));
        Ok(theirs.take(page.limit as usize).collect())
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let deadline = attempt::deadline();
        self.existing(name, deadline).await?;
        attempt::read(deadline, || self.store.history(name, limit)).await
    }

    async fn migrate(&self) -> Result<(), Error> {
        attempt::read(attempt::deadline(), || self.store.migrate()).await
    }

    async fn ready(&self) -> Result<(), Error> {
        attempt::read(attempt::deadline(), || self.store.ready()).await
    }

    async fn goodbye(&self, owner: &Owner) -> Result<u64, Error> {
        let held = Due::OwnedBy(owner);
        // First what it holds: should this process die before the end, the session's silence frees
        // the rest.
        let ended = self.end_all(held, |_| Cause::Released).await?;
        let goodbye = Command::Goodbye {
            owner: owner.clone(),
        };
        self.submit(goodbye).await?;
        // What was granted since that look has no session left to free it.
        let late = self.end_all(held, |_| Cause::Released).await?;
        Ok(ended + late)
    }

    fn engine(&self) -> Option<&Engine> {
        Some(self)
    }
}

impl Shared {
    /// Takes note of what was decided, and wakes those whom it may help.
    fn learn(&self, outcome: &Outcome) {
        match outcome {
            Ok(Reply::Ended { request, .. }) if !request.is_live() => {
                self.known.remove(&request.external_id);
                self.ring_for(request);
            }
            Ok(Reply::Defined { semaphore, .. }) => {
                self.waiting.ring(&semaphore.name, semaphore.available());
            }
            // Perhaps only now, as its time had passed: then its permits came back.
            Err(Refusal::RequestEnded { external_id, .. }) => {
                let names = self.known.remove(external_id);
                names.iter().for_each(|name| self.waiting.ring(name, 1));
            }
            _ => {}
        }
    }

    fn ring_for(&self, request: &Request) {
        for permit in &request.permits {
            self.waiting.ring(&permit.semaphore, permit.count.value());
        }
    }
}

/// Whether all that it holds is Lockhouse's own.
fn does_upkeep(request: &Request) -> bool {
    let mut permits = request.permits.iter();
    permits.all(|permit| permit.semaphore.as_str() == UPKEEP)
}

fn names(request: &Request) -> Vec<SemaphoreName> {
    request
        .permits
        .iter()
        .map(|permit| permit.semaphore.clone())
        .collect()
}
