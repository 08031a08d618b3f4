//! Requests for permits on one or more semaphores.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{
    Ask, Count, ExternalId, Invalid, Owner, Priority, Refusal, Request, SemaphoreName, Ttl,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::background::Dropped;
use crate::keeper::Keeper;
use crate::{Error, Lockhouse, Permit, who};

/// The TTL of a request unless the caller sets one.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// Builds a request for permits of one or more semaphores; see [`Lockhouse::request`] and
/// [`Lockhouse::request_with_id`].
///
/// Values are checked when the request is sent, so a chain of calls needs one `?`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("gpu", 1).await?;
/// lockhouse.define("network", 5).await?;
/// let permit = lockhouse
///     .request()
///     .permits("gpu", 1)
///     .permits("network", 2)
///     .owner("trainer-7")
///     .ttl(Duration::from_secs(60))
///     .wait(Duration::from_secs(30))
///     .priority(10)
///     .acquire()
///     .await?;
/// for (semaphore, fence) in permit.fences() {
///     println!("{semaphore}: fence {fence}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until acquire or try_acquire"]
pub struct RequestBuilder {
    lockhouse: Lockhouse,
    /// If there is none, each request that is sent draws a fresh id. Nobody else knows that id, so a grant whose caller
    /// went away may be given back.
    external_id: Option<String>,
    permits: Vec<(String, u32)>,
    owner: Option<String>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    priority: i32,
    keeper: Option<Keeper>,
}

impl Lockhouse {
    /// A request for permits under a fresh id, a UUID, which is drawn when it is sent; each clone of the
    /// builder has its own. Nobody else knows the id, so the permits of a request whose caller went away
    /// are given back.
    pub fn request(&self) -> RequestBuilder {
        RequestBuilder::anonymous(self.clone())
    }

    /// A request for permits under an id that the caller picks. The same request with the same id gets
    /// the same grant, any number of times (P5).
    pub fn request_with_id(&self, external_id: impl AsRef<str>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), external_id.as_ref())
    }
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

    /// Lets a session keep the request: it belongs to the session's owner and has no TTL.
    pub(crate) fn kept_by(mut self, keeper: Keeper) -> Self {
        self.owner = Some(keeper.owner.as_str().to_owned());
        self.ttl = None;
        self.keeper = Some(keeper);
        self
    }

    /// Adds `count` permits of `semaphore`. Each semaphore may be named once; at most 64 semaphores.
    pub fn permits(mut self, semaphore: impl Into<String>, count: u32) -> Self {
        self.permits.push((semaphore.into(), count));
        self
    }

    /// Sets the owner: free text that says who holds the permits, such as a job id.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the TTL: how long the hold lasts after its last renewal, by the store's clock. The default is 30 s. The
    /// [`Permit`] renews the hold every third of the TTL.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Removes the TTL: the hold lasts until it is released, even if this process dies. The upkeep ends it as
    /// [stale](crate::Upkeep::stale_after) after 24 h, unless its owner has a session.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// Limits how long [`acquire`](RequestBuilder::acquire) waits for room. By default it waits as long as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets the priority among waiters, from -100 to 100. The default is 0. Each step counts as ten seconds of waiting, so
    /// no waiter starves. A retry with the same id may have another priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Waits until all the semaphores have room, and takes all permits in one commit.
    ///
    /// **Fairness.** Waiters are served by arrival and priority, across all processes that use the store (P11).
    ///
    /// **Retries.** A request with the same id, permits and owner gets the same grant again, also from another process
    /// (P5).
    ///
    /// **Cancellation.** Dropping the future gives up the place in the line. A grant that was made in that moment is
    /// given back if the id is fresh. Under the caller's id it stays until its TTL or its session ends it, and a retry
    /// finds it.
    ///
    /// # Errors
    /// [`Exhausted`](Refusal::Exhausted) or [`Closed`](Refusal::Closed) if there was no room within the wait;
    /// [`SessionEnded`](Refusal::SessionEnded) if the request belongs to a session that is lost before there is room;
    /// [`UnknownSemaphore`](Refusal::UnknownSemaphore), [`ExceedsCapacity`](Refusal::ExceedsCapacity),
    /// [`IdempotencyConflict`](Refusal::IdempotencyConflict), [`RequestEnded`](Refusal::RequestEnded),
    /// [`Error::Invalid`], [`Error::Overloaded`], [`Error::Store`].
    pub async fn acquire(self) -> Result<Permit, Error> {
        let wait = self.wait.unwrap_or(Duration::MAX);
        self.send(wait).await
    }

    /// Takes the permits if all the semaphores have room now and no waiter comes first.
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

    /// Acquires `ask`, which this builder or the upkeep made, as a [`Permit`].
    pub(crate) async fn hold(self, ask: Ask, wait: Duration) -> Result<Permit, Error> {
        // A session keeps only its owner's requests.
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
            ended = Keeper::session_ends(keeper) => {
                // No TTL would end a grant that is made in this moment.
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

    /// The request, and a time by this process's clock that is no later than the start of its TTL. A request that was
    /// granted before this call, or whose answer took more than a sixth of the TTL, is renewed first (P8).
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
        // Another holder of the same id may rely on a longer TTL.
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

/// Releases a request that may be granted to a caller that went away (P10), if the id is fresh or
/// the session is lost. A request with the caller's own id stays, since another caller may have
/// asked for it again.
struct Abandoned {
    lockhouse: Lockhouse,
    runtime: Handle,
    /// Whether the library generated the id.
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
            may_come_yet: self.is_anonymous && self.lockhouse.is_remote(),
        };
        let background = self.lockhouse.background();
        background.give_back(self.lockhouse.backend(), &self.runtime, dropped);
    }
}
