//! [`Lockhouse`], the client: in a database or behind a server.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{FullStore, Page};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, ExternalId, Invalid, Owner, OwnerSession, Reply, Request,
    SemaphoreName, Ttl,
};

use crate::backend::Backend;
use crate::background::Background;
use crate::engine::Engine;
use crate::error::unexpected;
use crate::{ConnectOptions, Error, Heard, Released, SemaphoreStatus, who};
use lockhouse_wire as wire;

/// A client of the semaphores in a database, or behind a server.
///
/// Cloning is cheap. Clones share their connections and their queue.
///
/// Use a client on one tokio runtime. Calls share transactions, so a call that was made on one runtime may run in a
/// task of another. When that runtime ends, such a call fails with an error that is
/// [maybe applied](Error::maybe_applied); queued calls go on with the next call that is made. Waiters on other runtimes
/// keep waiting.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::{Lockhouse, SemaphoreStatus};
///
/// let lockhouse = Lockhouse::connect("memory:").await?;
/// lockhouse.define("backup-slots", 10).await?;
/// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
/// let SemaphoreStatus { semaphore, waiting } = lockhouse.status("backup-slots").await?;
/// assert_eq!((semaphore.in_use, waiting), (1, 0));
/// permit.release().await?;
/// lockhouse.delete("backup-slots").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lockhouse {
    backend: Backend,
    background: Background,
}

impl Lockhouse {
    /// Connects to a database (`sqlite:PATH`, `mysql://…`, `mariadb://…`, `postgres://…`, `redis://…`), to a server (`http://…`,
    /// `https://…`), or to a store in memory (`memory:`), which is for tests.
    ///
    /// On a database this first brings the schema up to date. A database user that may not change tables can connect
    /// after another user has run `lockhouse migrate`. A server is contacted by the first call. It
    /// is shown the token in `LOCKHOUSE_TOKEN`, if there is one; [`connect_with`](Lockhouse::connect_with) takes another.
    ///
    /// # Errors
    /// [`Error::Invalid`], or [`Error::Store`] of [`Kind::Configuration`](crate::store::Kind::Configuration), if the URL
    /// or its options make no sense; [`Error::Store`] if the database does not answer within 10 s.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::connect_with(url, ConnectOptions::from_env()?).await
    }

    /// [`connect`](Lockhouse::connect) with the token and the certificates of `options`, instead of
    /// those of the environment.
    ///
    /// # Errors
    /// As of [`connect`](Lockhouse::connect).
    pub async fn connect_with(
        url: impl AsRef<str>,
        options: ConnectOptions,
    ) -> Result<Self, Error> {
        let url = url.as_ref();
        // Without the feature `remote` there is no server to send them to.
        #[cfg(not(feature = "remote"))]
        drop(options);
        #[cfg(feature = "remote")]
        if is_server(url) {
            return Ok(Self::on(Backend::Remote(Arc::new(
                crate::remote::Remote::new(url, options)?,
            ))));
        }
        let lockhouse = Self::with_store(lockhouse_stores::open(url)?);
        lockhouse.migrate().await?;
        Ok(lockhouse)
    }

    /// A client on any store, which must have been [migrated](Lockhouse::migrate). See
    /// [`store::Store`](crate::store::Store) for how to write one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Lockhouse;
    ///
    /// let store = lockhouse_stores::open("memory:")?; // or a store or a layer of yours
    /// let lockhouse = Lockhouse::with_store(store);
    /// lockhouse.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
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

    /// Whether a server decides, not this process.
    pub(crate) fn is_remote(&self) -> bool {
        self.backend.engine().is_none()
    }

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// Deletes the semaphore `name`. If the name is defined again, its fences go on rising.
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore); [`SemaphoreInUse`](crate::Refusal::SemaphoreInUse) while
    /// permits are held; [`Error::Invalid`], [`Error::Store`].
    pub async fn delete(&self, name: impl AsRef<str>) -> Result<(), Error> {
        let name = SemaphoreName::parse(name)?;
        match self.backend.execute(Command::Delete { name }).await? {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Acquires `ask` without a [`Permit`](crate::Permit): nothing renews the hold, and it lasts until
    /// [`release`](Lockhouse::release) or its TTL ends it. Waits for room for at most `wait`. Returns the request, and
    /// whether this call granted it; `false` means that it was granted before.
    ///
    /// A call without a wait first waits for the releases that this client or a clone has begun on the same semaphores,
    /// for at most 0.4 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # use std::time::Duration;
    /// use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Ttl};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let permits = [(SemaphoreName::parse("backup-slots")?, Count::new(2)?)];
    /// let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
    /// ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
    /// let (request, now) = lockhouse.acquire(ask.clone(), Duration::ZERO).await?;
    /// assert!(now);
    /// let (again, now) = lockhouse.acquire(ask.clone(), Duration::ZERO).await?;
    /// assert!(!now && again.permits == request.permits && ask.is_that_of(&again));
    /// lockhouse.renew("job-abc-123", None).await?;
    /// assert!(lockhouse.release("job-abc-123").await?.now);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`ExceedsCapacity`](crate::Refusal::ExceedsCapacity),
    /// [`Exhausted`](crate::Refusal::Exhausted) or [`Closed`](crate::Refusal::Closed) if there was no room within the
    /// wait, [`IdempotencyConflict`](crate::Refusal::IdempotencyConflict),
    /// [`RequestEnded`](crate::Refusal::RequestEnded), [`Error::Overloaded`], [`Error::Store`].
    pub async fn acquire(&self, ask: Ask, wait: Duration) -> Result<(Request, bool), Error> {
        if wait.is_zero() {
            let semaphores = ask.permits().map(|(semaphore, _)| semaphore);
            self.background.releases_settle(semaphores).await;
        }
        match self.backend.acquire(ask, wait).await? {
            Reply::Granted { request, now, .. } => Ok((request, now)),
            other => Err(unexpected(&other)),
        }
    }

    /// Renews a live request: it expires `ttl` from now, by the store's clock. Without `ttl` its last TTL is used.
    ///
    /// # Errors
    /// [`UnknownRequest`](crate::Refusal::UnknownRequest); [`RequestEnded`](crate::Refusal::RequestEnded), also if it has
    /// expired and nothing has ended it yet; [`NoTtl`](crate::Refusal::NoTtl) if neither TTL is there;
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn renew(
        &self,
        external_id: impl AsRef<str>,
        ttl: Option<Duration>,
    ) -> Result<Request, Error> {
        let ttl = ttl.map(Ttl::new).transpose()?;
        let external_id = ExternalId::parse(external_id)?;
        self.backend.renew(external_id, ttl, None).await
    }

    /// Releases a live request. Its `ended_by` is this process, as `host:pid`. Releasing it again is no error:
    /// [`Released::now`] is then false.
    ///
    /// # Errors
    /// [`UnknownRequest`](crate::Refusal::UnknownRequest), [`Error::Invalid`], [`Error::Store`].
    pub async fn release(&self, external_id: impl AsRef<str>) -> Result<Released, Error> {
        let external_id = ExternalId::parse(external_id)?;
        let by = who::this_process();
        self.backend.release(external_id, by).await
    }

    /// [`release`](Lockhouse::release) with `by` as the request's `ended_by`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// # let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// let id = permit.external_id().clone();
    /// let released = lockhouse.release_by(&id, "ann").await?;
    /// assert_eq!(released.request.ended_by.unwrap().as_str(), "ann");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`release`](Lockhouse::release).
    pub async fn release_by(
        &self,
        external_id: impl AsRef<str>,
        by: impl AsRef<str>,
    ) -> Result<Released, Error> {
        let by = Owner::parse(by).map_err(|invalid| invalid.on("by"))?;
        let external_id = ExternalId::parse(external_id)?;
        self.backend.release(external_id, Some(by)).await
    }

    /// Ends any live request, with [`EndReason::Forced`](crate::EndReason::Forced). Its `ended_by` is `by`, or this
    /// process. The holder learns it at its next renewal, and may go on working until then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// let ended = lockhouse.force_release(permit.external_id(), Some("ann")).await?;
    /// assert_eq!(ended.request.end_reason(), Some(lockhouse::EndReason::Forced));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`release`](Lockhouse::release).
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
        Released::of(self.backend.execute(force).await?)
    }

    /// Begins or renews the session of `owner` for `ttl`. One heartbeat keeps all requests of the owner that have no TTL,
    /// however many. When the session lapses, all of them end. A [`Session`](crate::Session) sends heartbeats by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # use std::time::Duration;
    /// use lockhouse::{Heard, OwnerSession};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("network", 10).await?;
    /// let ttl = Duration::from_secs(30);
    /// let Heard { session, began } = lockhouse.heartbeat("job-abc-123", ttl).await?;
    /// assert!(began);
    /// let request = lockhouse.request().permits("network", 2).owner("job-abc-123").without_ttl();
    /// request.acquire().await?.forget();
    /// let renewed: OwnerSession = lockhouse.renew_session("job-abc-123", ttl).await?;
    /// assert!(renewed.expires_at >= session.expires_at);
    /// assert_eq!(lockhouse.goodbye("job-abc-123").await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn heartbeat(&self, owner: impl AsRef<str>, ttl: Duration) -> Result<Heard, Error> {
        self.beat(owner.as_ref(), ttl, false).await
    }

    /// A [`heartbeat`](Lockhouse::heartbeat) that begins no session. A session that has lapsed or was ended stays so, and
    /// every further call is refused too. So an owner learns for certain that its permits may have been freed, even if
    /// one answer is lost.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Refusal::SessionEnded), [`Error::Invalid`], [`Error::Store`].
    pub async fn renew_session(
        &self,
        owner: impl AsRef<str>,
        ttl: Duration,
    ) -> Result<OwnerSession, Error> {
        let heard = self.beat(owner.as_ref(), ttl, true).await?;
        Ok(heard.session)
    }

    async fn beat(&self, owner: &str, ttl: Duration, must_exist: bool) -> Result<Heard, Error> {
        let (owner, ttl) = (Owner::parse(owner)?, Ttl::new(ttl)?);
        self.backend.heartbeat(owner, ttl, must_exist).await
    }

    /// Releases all that `owner` holds and ends its session. Returns how many requests it released.
    ///
    /// If this process dies on the way, the rest is released when the session lapses.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn goodbye(&self, owner: impl AsRef<str>) -> Result<u64, Error> {
        self.backend.goodbye(&Owner::parse(owner)?).await
    }

    /// The request with the id `external_id`, live or ended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::{EndReason, Grant, Request, State};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let request = lockhouse.request_with_id("job-abc-123").permits("backup-slots", 1);
    /// let permit = request.acquire().await?;
    /// let held: Request = lockhouse.find("job-abc-123").await?;
    /// let [Grant { count, .. }] = &held.permits[..] else { panic!("one semaphore") };
    /// assert!(held.is_live() && count.value() == 1);
    ///
    /// permit.release().await?;
    /// let ended = lockhouse.find("job-abc-123").await?;
    /// match ended.state {
    ///     State::Acquired => println!("held until {:?}", ended.expires_at),
    ///     State::Released { reason, at } => println!("{reason} at {at}"),
    /// }
    /// assert_eq!(ended.end_reason(), Some(EndReason::Released));
    /// assert!(ended.released_at() >= Some(ended.created_at));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownRequest`](crate::Refusal::UnknownRequest), [`Error::Invalid`], [`Error::Store`].
    pub async fn find(&self, external_id: impl AsRef<str>) -> Result<Request, Error> {
        self.backend.request(&ExternalId::parse(external_id)?).await
    }

    /// The semaphore `name`, and how many calls wait for it.
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Invalid`], [`Error::Store`].
    pub async fn status(&self, name: impl AsRef<str>) -> Result<SemaphoreStatus, Error> {
        self.backend.semaphore(&SemaphoreName::parse(name)?).await
    }

    /// The latest changes of a semaphore's capacity, newest first, at most `limit` (1 to 1000).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::{CapacityChange, Note};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// lockhouse.define("backup-slots", 4).changed_by("ann").note("slow disk").await?;
    /// let changes: Vec<CapacityChange> = lockhouse.history("backup-slots", 10).await?;
    /// assert_eq!(changes[0].new_capacity.value(), 4);
    /// assert_eq!(changes[0].note.as_ref().map(Note::as_str), Some("slow disk"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Invalid`], [`Error::Store`].
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

    /// Has the calls that wait in this process keep their places in the line: a caller that asks again at another process
    /// within 15 s, with the same id and the same ask, stands where it stood here.
    ///
    /// A server calls it before it ends the waiting calls of its callers. It takes at most a second. If the store cannot
    /// write in that time, the waiters get new places. Waiters that begin to wait after it do too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.hand_over_waiters().await; // now end the calls that wait
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hand_over_waiters(&self) {
        self.backend.hand_over_waiters().await;
    }

    /// Waits until all that this client and its clones dropped is given back: permits, sessions, and requests whose
    /// future was dropped. It takes at most 11 s, and no time if there is nothing to give back.
    ///
    /// Returns how many could not be given back because the store did not answer. Those with fresh ids are retried until
    /// the runtime ends; a TTL ends those that have one.
    ///
    /// It also removes this process from the lines in which its waiters have given up. Otherwise other processes may leave
    /// the next free permit to this one for up to 700 ms.
    ///
    /// Call it at the end of a program that drops permits, before the runtime ends, since that aborts releases. It does
    /// not release permits that are still held: drop or release them first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// drop(permit);
    /// assert_eq!(lockhouse.close().await, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(self) -> usize {
        self.backend.leave_lines().await;
        self.background.settle().await
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.backend.engine()
    }
}

/// The scheme of a URL is case-insensitive.
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
