//! An owner's session that beats by itself.

use lockhouse_core::{Owner, Ttl};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::holding::{Held, Holding};
use crate::{Error, Lockhouse, Lost, RequestBuilder};

/// An owner's session, kept by one heartbeat about every third of its time to live, however much the
/// owner holds. See [`Lockhouse::session`].
///
/// Dropping it says goodbye in the background, which needs the runtime to go on for a moment; a
/// program about to exit should say [`goodbye`](Session::goodbye) instead. If nobody can be told, the
/// owner's silence frees what it holds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("network", 10).await?;
/// let session = lockhouse.session("job-abc-123", Duration::from_secs(30)).await?;
/// let permit = session.request("job-abc-123::1").permits("network", 2).acquire().await?;
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
    owner: Owner,
    holding: Holding,
    open: bool,
}

impl Session {
    pub(crate) async fn begin(lockhouse: Lockhouse, owner: Owner, ttl: Ttl) -> Result<Self, Error> {
        let sent_at = Instant::now();
        lockhouse.heartbeat(&owner, ttl.as_duration()).await?;
        let holding = Holding::new(&lockhouse, Held::Owner(owner.clone()), Some(ttl), sent_at);
        Ok(Self {
            lockhouse,
            owner,
            holding,
            open: true,
        })
    }

    /// Whose it is.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// An ask for permits that this session keeps: the owner's, without a TTL of its own.
    pub fn request(&self, external_id: impl AsRef<str>) -> RequestBuilder {
        let request = self.lockhouse.request(external_id);
        request.owner(self.owner.as_str()).without_ttl()
    }

    /// Resolves when the session is lost: no heartbeat got through in time, or it had lapsed or was
    /// ended by somebody else when one did. What the owner holds may be somebody else's: stop what
    /// it was for.
    ///
    /// A request that is ended by itself, as by force, ends no session.
    pub async fn lost(&self) -> Lost {
        self.holding.lost().await
    }

    /// Whether the session is lost.
    pub fn is_lost(&self) -> bool {
        self.holding.is_lost()
    }

    /// Until when the owner surely counts as heard, by this process's monotonic clock: a tenth of
    /// the time to live before the store could free anything. Every heartbeat moves it on, and if
    /// none does, [`lost`](Session::lost) resolves then.
    pub fn held_until(&self) -> Option<std::time::Instant> {
        self.holding.held_until().map(Instant::into_std)
    }

    /// Releases all that the owner holds, and ends the session; how many requests those were.
    ///
    /// # Errors
    /// `store_unavailable`; the owner's silence then frees them.
    pub async fn goodbye(mut self) -> Result<u64, Error> {
        self.holding.stop();
        let released = self.lockhouse.goodbye(&self.owner).await;
        // If this future is dropped before, the drop of the session says it.
        self.open = false;
        released
    }

    /// Beats no more, and says no goodbye: what the owner holds is freed when its time to live has
    /// passed, unless somebody else goes on with the session.
    pub fn forget(mut self) {
        self.open = false;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What a lost one kept is freed already, and the name may be another session's by now.
        if !self.open || self.is_lost() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (lockhouse, owner) = (self.lockhouse.clone(), self.owner.clone());
        runtime.spawn(async move {
            if let Err(error) = lockhouse.goodbye(&owner).await {
                tracing::warn!(%owner, %error, "a dropped session could not say goodbye");
            }
        });
    }
}
