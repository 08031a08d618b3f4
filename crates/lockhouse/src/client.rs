//! [`Lockhouse`]: the one type to begin with.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{FullStore, Page};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, Epoch, ExternalId, Finding, Invalid, Owner, OwnerSession,
    Reply, Request, SemaphoreName, Ttl,
};

use crate::backend::Backend;
use crate::background::Background;
use crate::engine::Engine;
use crate::error::unexpected;
use crate::upkeep::{Maintaining, Swept, Upkeep, UpkeepState};
use crate::{
    Define, Error, Heard, Raised, Released, RequestBuilder, Semaphore, SemaphoreStatus, Session,
    who,
};
use lockhouse_wire as wire;

/// A way to semaphores: in a database that this process talks to, or behind a server.
///
/// Cloning is cheap, and clones share their connections and their queue.
///
/// Use it on one tokio runtime. Calls share transactions, so some of one runtime may be in a task of
/// another: when that runtime ends, they are answered that the store may have done it or not, and
/// those still queued go on with the next call that is made. Who waits on another waits on.
#[derive(Clone, Debug)]
pub struct Lockhouse {
    backend: Backend,
    background: Background,
}

impl Lockhouse {
    /// Connects to where the permits live: `sqlite:PATH`, `mysql://…`, `mariadb://…`,
    /// `postgres://…`, `memory:`, or a server's `http://…` or `https://…`.
    ///
    /// On a database this brings the schema up to date first; a user without the right to do so
    /// can connect once somebody else has (`lockhouse migrate`). A server is first asked by the
    /// first call.
    ///
    /// # Errors
    /// `invalid_request` when the URL makes no sense, `store_unavailable` when the database does
    /// not answer within 10 s.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, Error> {
        let url = url.as_ref();
        #[cfg(feature = "remote")]
        if is_server(url) {
            return Ok(Self::on(Backend::Remote(Arc::new(
                crate::remote::Remote::new(url)?,
            ))));
        }
        let lockhouse = Self::with_store(lockhouse_stores::open(url)?);
        lockhouse.migrate().await?;
        Ok(lockhouse)
    }

    /// An engine of its own on any store. The store must have been
    /// [migrated](Lockhouse::migrate).
    pub fn with_store(store: Arc<dyn FullStore>) -> Self {
        Self::on(Backend::Engine(Engine::new(store)))
    }

    fn on(backend: Backend) -> Self {
        Self {
            backend,
            background: Background::default(),
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Whether a server does all.
    pub(crate) fn is_remote(&self) -> bool {
        self.backend.engine().is_none()
    }

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// Creates the semaphore `name` with `capacity`, or gives it that capacity if it exists.
    /// Await it; or first say more with [`Define`].
    ///
    /// A capacity below what is held revokes nothing; nothing is granted until there is room.
    pub fn define(&self, name: impl AsRef<str>, capacity: impl Into<i128>) -> Define {
        Define::new(self, name.as_ref(), capacity.into())
    }

    /// Deletes the semaphore `name`. Its name may come back, and its fences then go on.
    ///
    /// # Errors
    /// `unknown_semaphore`; `semaphore_in_use` while permits are held; `store_unavailable`.
    pub async fn delete(&self, name: impl AsRef<str>) -> Result<(), Error> {
        let name = SemaphoreName::parse(name)?;
        match self
            .backend
            .execute(Command::Delete { name }, Duration::ZERO)
            .await?
        {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// A handle on the semaphore `name`, in the manner of `tokio::sync::Semaphore`. Nothing is
    /// checked yet.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.clone(), name.as_ref(), None)
    }

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

    /// Grants all of `ask` or nothing, waiting at most `wait` for room; also says whether it was
    /// granted by this call rather than before.
    ///
    /// Without a `wait`, it first waits until the releases that this client, or a clone, has begun on the
    /// same semaphores are answered, for 0.4 s at most.
    ///
    /// This is what [`request`](Lockhouse::request) comes to, without a [`Permit`](crate::Permit):
    /// nothing renews the hold, and only [`release`](Lockhouse::release) or its time ends it.
    ///
    /// # Errors
    /// `unknown_semaphore`, `exceeds_capacity`, `exhausted`, `idempotency_conflict`,
    /// `request_ended`, `store_unavailable`, `overloaded`.
    pub async fn acquire(&self, ask: Ask, wait: Duration) -> Result<(Request, bool), Error> {
        if wait.is_zero() {
            let semaphores = ask.permits().map(|(semaphore, _)| semaphore);
            self.background.releases_settle(semaphores).await;
        }
        match self.backend.execute(Command::acquire(ask), wait).await? {
            Reply::Granted { request, now, .. } => Ok((request, now)),
            other => Err(unexpected(&other)),
        }
    }

    /// Pushes the expiry of a live request to now plus `ttl`, or plus the time to live that it
    /// was last given.
    ///
    /// # Errors
    /// `unknown_request`, `request_ended`, `store_unavailable`; `invalid_request` when neither is
    /// there.
    pub async fn renew(
        &self,
        external_id: impl AsRef<str>,
        ttl: Option<Duration>,
    ) -> Result<Request, Error> {
        let external_id = ExternalId::parse(external_id)?;
        let ttl = ttl.map(Ttl::new).transpose()?;
        match self
            .backend
            .execute(Command::Renew { external_id, ttl }, Duration::ZERO)
            .await?
        {
            Reply::Renewed(request) => Ok(request),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a live request and gives its permits back, in the name of this process, by its host and
    /// pid. Again is no error: it then says that the request had ended before.
    ///
    /// # Errors
    /// `unknown_request`, `store_unavailable`.
    pub async fn release(&self, external_id: impl AsRef<str>) -> Result<Released, Error> {
        let external_id = ExternalId::parse(external_id)?;
        self.release_as(external_id, who::this_process()).await
    }

    /// The same in the name of `by`, which is kept as the request's `ended_by`.
    ///
    /// # Errors
    /// `invalid_request`, `unknown_request`, `store_unavailable`.
    pub async fn release_by(
        &self,
        external_id: impl AsRef<str>,
        by: impl AsRef<str>,
    ) -> Result<Released, Error> {
        let by = Owner::parse(by).map_err(|invalid| invalid.on("by"))?;
        self.release_as(ExternalId::parse(external_id)?, Some(by))
            .await
    }

    pub(crate) async fn release_as(
        &self,
        external_id: ExternalId,
        by: Option<Owner>,
    ) -> Result<Released, Error> {
        let cause = Cause::Released { by };
        let release = Command::End { external_id, cause };
        Released::of(self.backend.execute(release, Duration::ZERO).await?)
    }

    /// Ends anybody's live request, as `forced`, in the name of `by`, or without it of this process. Its holder is told when it
    /// next renews; until then it may go on with what the permits were for.
    ///
    /// # Errors
    /// `unknown_request`, `store_unavailable`.
    pub async fn force_release(
        &self,
        external_id: impl AsRef<str>,
        by: Option<&str>,
    ) -> Result<Released, Error> {
        let by = by.map(Owner::parse).transpose();
        let force = Command::End {
            external_id: ExternalId::parse(external_id)?,
            cause: Cause::Forced {
                by: by
                    .map_err(|invalid| invalid.on("by"))?
                    .or_else(who::this_process),
            },
        };
        Released::of(self.backend.execute(force, Duration::ZERO).await?)
    }

    /// Says that `owner` lives, and will say so again within `ttl`. One heartbeat keeps all that
    /// the owner holds without a TTL of its own, whatever its number; silence frees all of it.
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
    pub async fn heartbeat(&self, owner: impl AsRef<str>, ttl: Duration) -> Result<Heard, Error> {
        self.beat(owner.as_ref(), ttl, false).await
    }

    /// The same, but only if the owner's session goes on: one that has lapsed or was ended is not
    /// begun anew. Asked again, as the answer was lost, it says the same; so it tells surely
    /// whether what the session kept may have been freed.
    ///
    /// # Errors
    /// `session_ended`, `invalid_request`, `store_unavailable`.
    pub async fn renew_session(
        &self,
        owner: impl AsRef<str>,
        ttl: Duration,
    ) -> Result<OwnerSession, Error> {
        let heard = self.beat(owner.as_ref(), ttl, true).await?;
        Ok(heard.session)
    }

    async fn beat(&self, owner: &str, ttl: Duration, must_exist: bool) -> Result<Heard, Error> {
        let heartbeat = Command::Heartbeat {
            owner: Owner::parse(owner)?,
            ttl: Ttl::new(ttl)?,
            must_exist,
        };
        match self.backend.execute(heartbeat, Duration::ZERO).await? {
            Reply::Heard { session, began } => Ok(Heard { session, began }),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins a session of `owner` that beats by itself, every third of `ttl`, until it is
    /// [ended](Session::goodbye) or dropped. It keeps all that the owner holds without a TTL of its
    /// own, whatever its number.
    ///
    /// An owner's name is for one session at a time: the goodbye of one frees what the owner holds
    /// under all. Put something of this process's own in it, unless it is a job's that knows better. One
    /// that was dropped has said its goodbye before this client, or a clone, begins the next of its name.
    /// What was held under one that has lapsed, and that nobody has ended yet, the next keeps.
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
    pub async fn session(&self, owner: impl AsRef<str>, ttl: Duration) -> Result<Session, Error> {
        Session::begin(self.clone(), Owner::parse(owner)?, Ttl::new(ttl)?).await
    }

    /// Releases all that `owner` holds, and forgets its session; how many requests those were.
    ///
    /// Should the process die on the way, the session's silence frees the rest.
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
    pub async fn goodbye(&self, owner: impl AsRef<str>) -> Result<u64, Error> {
        self.backend.goodbye(&Owner::parse(owner)?).await
    }

    /// The request known by `external_id`, live or ended.
    ///
    /// # Errors
    /// `unknown_request`, `store_unavailable`.
    pub async fn find(&self, external_id: impl AsRef<str>) -> Result<Request, Error> {
        self.backend.request(&ExternalId::parse(external_id)?).await
    }

    /// One semaphore.
    ///
    /// # Errors
    /// `unknown_semaphore`, `store_unavailable`.
    pub async fn status(&self, name: impl AsRef<str>) -> Result<SemaphoreStatus, Error> {
        self.backend.semaphore(&SemaphoreName::parse(name)?).await
    }

    /// The latest changes of a semaphore's capacity, newest first, at most `limit` (1 to 1000).
    ///
    /// # Errors
    /// `unknown_semaphore`, `invalid_request`, `store_unavailable`.
    pub async fn history(
        &self,
        name: impl AsRef<str>,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let name = SemaphoreName::parse(name)?;
        self.backend
            .history(&name, wire::limit(limit.into())?)
            .await
    }

    /// Brings a database's schema up to date; any number of processes may at once. A server has
    /// done so itself, so there this only asks whether it is ready.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.backend.migrate().await
    }

    /// Does the upkeep of the store in the background, until the answer is dropped. `lockhouse
    /// serve` does so by itself; a program that embeds Lockhouse may. Any number may at once.
    ///
    /// # Errors
    /// `invalid_request` on a server's URL: there it is the server's business.
    pub fn maintain(&self, upkeep: Upkeep) -> Result<Maintaining, Error> {
        self.upkeeper()?;
        Ok(upkeep.begin(self.clone()))
    }

    /// Does each task of the upkeep once, and says what it did. A check frees nobody by this, as
    /// it takes two rounds; those are [`maintain`](Lockhouse::maintain)'s.
    ///
    /// # Errors
    /// `store_unavailable`; `invalid_request` on a server's URL.
    pub async fn sweep(&self, upkeep: &Upkeep) -> Result<Swept, Error> {
        upkeep.once(self.upkeeper()?).await
    }

    /// How the upkeep that [`maintain`](Lockhouse::maintain) began in this process goes.
    pub fn upkeep_state(&self) -> UpkeepState {
        self.engine()
            .map_or(UpkeepState::Off, |engine| engine.upkeep().state())
    }

    /// Counts everything anew, in one consistent read, and says what is off: P1, P2, P3 and P7.
    ///
    /// # Errors
    /// `store_unavailable`; `invalid_request` on a server's URL.
    pub async fn verify(&self) -> Result<Vec<Finding>, Error> {
        self.upkeeper()?.verify().await
    }

    /// Mends the counters that `findings` say are off, each in a transaction of its own, in which
    /// it is counted again; the semaphores as they were.
    ///
    /// # Errors
    /// `store_unavailable`; `invalid_request` on a server's URL.
    pub async fn repair(
        &self,
        findings: &[Finding],
    ) -> Result<Vec<lockhouse_core::Semaphore>, Error> {
        self.upkeeper()?.repair(findings).await
    }

    /// Raises the fences of all semaphores, deleted ones and those yet to be made too, to the epoch
    /// `to`, or without it to the one after the highest that there is. For a database that has lost
    /// commits: what is granted from here on has greater fences than what was lost (P7), if that
    /// was in an earlier epoch.
    ///
    /// It lowers nothing, and raising to the same epoch again goes on where that ended. What is
    /// held stays held, under its old fences. Others may grant meanwhile.
    ///
    /// # Errors
    /// `invalid_request` when there are fences beyond `to`, or no epoch is left, and on a server's URL;
    /// `store_unavailable`: then some may have been raised.
    pub async fn raise_epoch(&self, to: Option<Epoch>) -> Result<Raised, Error> {
        self.upkeeper()?.raise_epoch(to).await
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.backend.engine()
    }

    /// At most `most` calls wait for room in this process from here on, of all the clones; more are
    /// answered `overloaded`. 10,000 unless said.
    ///
    /// # Errors
    /// `invalid_request` on a server's URL: there it is the server's business.
    pub fn limit_waiters(&self, most: usize) -> Result<(), Error> {
        self.upkeeper()?.limit_waiters(most);
        Ok(())
    }

    fn upkeeper(&self) -> Result<&Engine, Error> {
        let elsewhere = || Invalid::new("url", "is a server's; do this where its database is");
        Ok(self.engine().ok_or_else(elsewhere)?)
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn ready(&self) -> Result<(), Error> {
        self.backend.ready().await
    }
}

/// Schemes know no case.
#[cfg(feature = "remote")]
fn is_server(url: &str) -> bool {
    let scheme = url
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

pub(crate) fn page<K: Clone>(after: Option<&K>, limit: u32) -> Result<Page<K>, Invalid> {
    Ok(Page {
        after: after.cloned(),
        limit: wire::limit(limit.into())?,
    })
}
