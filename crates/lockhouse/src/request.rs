//! Asking for permits on one or more semaphores.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{
    Ask, Count, ExternalId, Invalid, Owner, Priority, Refusal, Request, SemaphoreName, Ttl,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::background::Dropped;
use crate::session::Keeper;
use crate::{Error, Lockhouse, Permit, who};

/// The time to live of a hold that says nothing else.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A request in the making; see [`Lockhouse::request`] and [`Lockhouse::request_with_id`].
///
/// Values are checked when it is sent, so that a chain of calls needs one `?`.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until acquire or try_acquire"]
pub struct RequestBuilder {
    lockhouse: Lockhouse,
    /// If there is none, each that is sent has one of its own. Nobody else knows that, so a grant
    /// that its caller gave up on may be given back.
    external_id: Option<String>,
    permits: Vec<(String, u32)>,
    owner: Option<String>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    priority: i32,
    keeper: Option<Keeper>,
}

impl RequestBuilder {
    pub(crate) fn new(lockhouse: Lockhouse, external_id: &str) -> Self {
        Self {
            external_id: Some(external_id.to_owned()),
            ..Self::anonymous(lockhouse)
        }
    }

    pub(crate) fn anonymous(lockhouse: Lockhouse) -> Self {
        Self {
            lockhouse,
            external_id: None,
            permits: Vec::new(),
            owner: None,
            ttl: Some(DEFAULT_TTL),
            wait: None,
            priority: 0,
            keeper: None,
        }
    }

    /// The owner's whose session keeps it, without a TTL of its own.
    pub(crate) fn kept_by(mut self, keeper: Keeper) -> Self {
        self.owner = Some(keeper.owner.as_str().to_owned());
        self.ttl = None;
        self.keeper = Some(keeper);
        self
    }

    /// Adds `count` permits of `semaphore`. Name each semaphore once.
    pub fn permits(mut self, semaphore: impl Into<String>, count: u32) -> Self {
        self.permits.push((semaphore.into(), count));
        self
    }

    /// Who will hold.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long the hold outlives its last renewal, by the store's clock; 30 s unless said. The
    /// [`Permit`] renews it every third of that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The hold lasts until it is released, even if this process dies.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// How long [`acquire`](RequestBuilder::acquire) waits for room at most; without this, as long
    /// as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// How much this is preferred to others that wait: -100 to 100, 0 unless said. Each step puts
    /// it ahead of those who came up to ten seconds before, and of no others; so nobody waits for
    /// ever. It is not part of what is asked: the same ask with another priority is the same.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Waits for room on all the semaphores at once, and takes it.
    ///
    /// First come, first served, over all processes that use the store: nobody behind is granted what one
    /// ahead wants too, be it one of several semaphores (P11). Between two processes the order holds up to a
    /// quarter of a second.
    ///
    /// The same id with the same permits and owner gives the same grant again, also from another
    /// process (P5).
    ///
    /// Dropping the future gives up the place in the queue. If the grant was made in that very
    /// moment it ends by its time to live, or with its session; the same call again would find it.
    ///
    /// # Errors
    /// `exhausted` when there was no room within the wait; `session_ended` when it is a session's, and
    /// that is lost before there is room; `invalid_request`, `unknown_semaphore`, `exceeds_capacity`,
    /// `idempotency_conflict`, `request_ended`, `store_unavailable`, `overloaded`.
    pub async fn acquire(self) -> Result<Permit, Error> {
        let wait = self.wait.unwrap_or(Duration::MAX);
        self.send(wait).await
    }

    /// Takes the permits if there is room on all the semaphores now, and nobody waits for it.
    ///
    /// # Errors
    /// As [`acquire`](RequestBuilder::acquire).
    pub async fn try_acquire(self) -> Result<Permit, Error> {
        self.send(Duration::ZERO).await
    }

    async fn send(self, wait: Duration) -> Result<Permit, Error> {
        let ask = self.ask()?;
        self.hold(ask, wait).await
    }

    /// Holds `ask`, which this builder made or one of Lockhouse's own did.
    pub(crate) async fn hold(self, ask: Ask, wait: Duration) -> Result<Permit, Error> {
        // Of another owner it is not kept.
        let is_kept_by = |keeper: &&Keeper| ask.owner.as_ref() == Some(&keeper.owner);
        let keeper = self.keeper.as_ref().filter(is_kept_by);
        if let Some(keeper) = keeper.filter(|keeper| keeper.holding.is_lost().is_some()) {
            return Err(Refusal::SessionEnded(keeper.owner.clone()).into());
        }
        let (id, is_anonymous) = (ask.external_id.clone(), self.external_id.is_none());
        let mut abandoned = Abandoned::new(&self.lockhouse, &ask, is_anonymous);
        let asked_at = Instant::now();
        let (request, granted_now) = tokio::select! {
            biased;
            granted = self.lockhouse.acquire(ask, wait) => granted.inspect_err(|error| {
                if matches!(error, Error::Refused(_)) {
                    abandoned.disarm();
                }
            })?,
            ended = session_ends(keeper) => {
                // What is granted in that very moment has no time to live to end it.
                abandoned.arm(id);
                return Err(ended);
            }
        };
        let (request, sent_at) = self.fresh(request, granted_now, asked_at).await?;
        abandoned.disarm();
        let session = keeper.map(|keeper| Arc::clone(&keeper.holding));
        Ok(Permit::new(
            self.lockhouse,
            request,
            sent_at,
            session,
            is_anonymous,
        ))
    }

    /// The request with a time, by this process's clock, from which its time to live surely runs:
    /// a grant of another moment than when it was asked for is renewed first (P8).
    async fn fresh(
        &self,
        request: Request,
        granted_now: bool,
        asked_at: Instant,
    ) -> Result<(Request, Instant), Error> {
        let Some(ttl) = request.ttl else {
            return Ok((request, asked_at));
        };
        if granted_now && asked_at.elapsed() <= ttl.as_duration() / 6 {
            return Ok((request, asked_at));
        }
        let renewed_at = Instant::now();
        // Who holds it by the same id with a longer one goes by that.
        let ttl = self.ttl.max(Some(ttl.as_duration()));
        let request = self.lockhouse.renew(&request.external_id, ttl).await?;
        Ok((request, renewed_at))
    }

    fn ask(&self) -> Result<Ask, Invalid> {
        let permits = self
            .permits
            .iter()
            .map(|(name, count)| Ok((SemaphoreName::parse(name)?, Count::new(*count)?)))
            .collect::<Result<Vec<_>, Invalid>>()?;
        let external_id = match &self.external_id {
            Some(id) => ExternalId::parse(id),
            None => ExternalId::parse(uuid::Uuid::now_v7().to_string()),
        };
        let mut ask = Ask::new(external_id?, permits)?;
        ask.owner = self.owner.as_deref().map(Owner::parse).transpose()?;
        ask.ttl = self.ttl.map(Ttl::new).transpose()?;
        ask.priority = Priority::new(self.priority)?;
        Ok(ask)
    }
}

/// Once its session is lost, whatever is granted is lost too. Without a session, never.
async fn session_ends(keeper: Option<&Keeper>) -> Error {
    let Some(keeper) = keeper else {
        return std::future::pending().await;
    };
    keeper.holding.lost().await;
    Refusal::SessionEnded(keeper.owner.clone()).into()
}

/// Gives back what may be granted to a caller who went away (P10). Only for ids that nobody else
/// knows, as another may have been asked for again by somebody who is still there; and for any whose
/// session is lost, as whoever asked for it with that has lost it too.
struct Abandoned {
    lockhouse: Lockhouse,
    runtime: Handle,
    /// Whether the library made the id.
    is_anonymous: bool,
    ttl: Option<Duration>,
    owner: Option<Owner>,
    external_id: Option<ExternalId>,
}

impl Abandoned {
    fn new(lockhouse: &Lockhouse, ask: &Ask, is_anonymous: bool) -> Self {
        Self {
            lockhouse: lockhouse.clone(),
            runtime: Handle::current(),
            is_anonymous,
            ttl: ask.ttl.map(Ttl::as_duration),
            owner: ask.owner.clone(),
            external_id: is_anonymous.then(|| ask.external_id.clone()),
        }
    }

    fn arm(&mut self, external_id: ExternalId) {
        self.external_id = Some(external_id);
    }

    fn disarm(&mut self) {
        self.external_id = None;
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Some(external_id) = self.external_id.take() else {
            return;
        };
        let dropped = Dropped {
            external_id,
            by: self.owner.take().or_else(who::this_process),
            is_anonymous: self.is_anonymous,
            ends_at: self.ttl.map(|ttl| Instant::now() + ttl),
            under_way: None,
            may_come_yet: self.is_anonymous && self.ttl.is_none() && self.lockhouse.is_remote(),
        };
        let background = self.lockhouse.background();
        background.give_back(&self.lockhouse, &self.runtime, dropped);
    }
}
