//! [`Session`]: an owner's session that sends its heartbeats by itself.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{EndReason, Owner, Ttl};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::holding::{Holding, Renewable};
use crate::keeper::Keeper;
use crate::{Error, Lockhouse, Lost, RequestBuilder, Semaphore};

/// A session of an owner: one heartbeat about every third of its TTL keeps all that the owner holds. See
/// [`Lockhouse::session`].
///
/// Permits that are acquired through the session are lost when the session is, so it is enough to watch
/// [`lost`](Session::lost).
///
/// Dropping the session releases its permits in the background, on the runtime on which it began.
/// [`Lockhouse::close`] waits for that. If the store cannot be reached, they are released when the session lapses.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("network", 10).await?;
/// let session = lockhouse.session("job-abc-123", Duration::from_secs(30)).await?;
/// let permit = session.request_with_id("job-abc-123::1").permits("network", 2).acquire().await?;
/// tokio::select! {
///     lost = session.lost() => eprintln!("stop: {lost}"),
///     () = work() => assert_eq!(session.goodbye().await?, 1),
/// }
/// # drop(permit);
/// # async fn work() {}
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a session frees all that its owner holds"]
pub struct Session {
    lockhouse: Lockhouse,
    keeper: Keeper,
    runtime: Handle,
    open: bool,
}

impl Lockhouse {
    /// Begins a session of `owner` that sends a heartbeat every third of `ttl`, until it is [ended](Session::goodbye) or
    /// dropped. It keeps all requests of the owner that have no TTL, however many.
    ///
    /// Use an owner's name for one session at a time, since the goodbye of one session releases all that the owner holds.
    /// The name of a job, or one with the host and pid in it, will do. When a session is dropped, this client and its
    /// clones wait for its goodbye before they begin the next session of that owner. Requests of a session that lapsed are
    /// kept by the next session, if nothing has ended them yet.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn session(&self, owner: impl AsRef<str>, ttl: Duration) -> Result<Session, Error> {
        Session::begin(self.clone(), Owner::parse(owner)?, Ttl::new(ttl)?).await
    }
}

impl Session {
    pub(crate) async fn begin(lockhouse: Lockhouse, owner: Owner, ttl: Ttl) -> Result<Self, Error> {
        lockhouse.background().has_left(&owner).await;
        let sent_at = Instant::now();
        lockhouse.heartbeat(&owner, ttl.as_duration()).await?;
        let holding = Holding::new(&lockhouse, Renewable::Owner(owner.clone()), ttl, sent_at);
        Ok(Self {
            lockhouse,
            keeper: Keeper {
                owner,
                holding: Arc::new(holding),
            },
            runtime: Handle::current(),
            open: true,
        })
    }

    /// The owner.
    pub fn owner(&self) -> &Owner {
        &self.keeper.owner
    }

    /// A request under a fresh id for permits that this session keeps: they belong to its owner and have
    /// no TTL.
    pub fn request(&self) -> RequestBuilder {
        self.lockhouse.request().kept_by(self.keeper.clone())
    }

    /// A request under an id that the caller picks, for permits that this session keeps; see [`Lockhouse::request_with_id`].
    pub fn request_with_id(&self, external_id: impl AsRef<str>) -> RequestBuilder {
        let request = self.lockhouse.request_with_id(external_id);
        request.kept_by(self.keeper.clone())
    }

    /// A handle on the semaphore `name`, whose permits this session keeps.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        let keeper = Some(self.keeper.clone());
        Semaphore::new(self.lockhouse.clone(), name.as_ref(), keeper)
    }

    /// Resolves when the session is lost: no heartbeat reached the store in time, or the session had lapsed or was ended
    /// when one did. The permits may be granted to other callers then, so stop the work.
    ///
    /// The end of a single request, by force, does not end the session.
    pub async fn lost(&self) -> Lost {
        self.keeper.holding.lost().await
    }

    /// Whether the session is lost now; see [`Permit::is_lost`].
    ///
    /// [`Permit::is_lost`]: crate::Permit::is_lost
    pub fn is_lost(&self) -> bool {
        self.keeper.holding.is_lost().is_some()
    }

    /// Until when the session is certain, by this process's monotonic clock: a tenth of the TTL before the store could
    /// end it. Every heartbeat moves it on. Without one, [`lost`](Session::lost) resolves at that time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let session = lockhouse.session("job-7", std::time::Duration::from_secs(30)).await?;
    /// let left = session.held_until().map(|until| until - std::time::Instant::now());
    /// assert!(left > Some(std::time::Duration::from_secs(20)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn held_until(&self) -> Option<std::time::Instant> {
        Some(self.keeper.holding.held_until().into_std())
    }

    /// Releases all that the owner holds and ends the session. Returns how many requests it released. The session's
    /// permits are lost from here on.
    ///
    /// # Errors
    /// [`Error::Store`]; the requests end when the session lapses.
    pub async fn goodbye(mut self) -> Result<u64, Error> {
        self.keeper.holding.end(EndReason::Released);
        let released = self.lockhouse.goodbye(self.owner()).await;
        // If this future is dropped before this line, the drop of the session says goodbye.
        self.open = false;
        released
    }

    /// Stops the heartbeats without a goodbye. The owner's requests end when the session lapses, unless another
    /// process sends heartbeats for the owner.
    pub fn forget(mut self) {
        self.open = false;
        self.keeper.holding.stop();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A lost session says no goodbye: another session may have its name now. Its requests end
        // when it lapses, or when their permits are dropped. A session whose goodbye was broken off
        // says it again.
        let is_ended = self.keeper.holding.is_lost() == Some(Lost::Ended(EndReason::Released));
        if !self.open || (self.is_lost() && !is_ended) {
            return;
        }
        self.keeper.holding.end(EndReason::Released);
        let (lockhouse, owner) = (self.lockhouse.clone(), self.owner().clone());
        let goodbye = async move {
            let said = lockhouse.goodbye(&owner).await;
            if let Err(error) = &said {
                tracing::warn!(%owner, %error, "a dropped session could not say goodbye");
            }
            said.is_ok()
        };
        let background = self.lockhouse.background();
        background.say_goodbye(&self.runtime, self.owner().clone(), goodbye);
    }
}
