//! What is held.

use lockhouse_core::{ExternalId, Request};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::holding::{Held, Holding};
use crate::{Error, Lockhouse, Lost, Released};

/// Permits that are held: renewed in the background, given back by
/// [`release`](Permit::release) or on drop.
///
/// Dropping it gives the permits back in the background, which needs the runtime to go on for a
/// moment; a program about to exit should release instead. If nothing can be given back, the time
/// to live ends the hold.
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    lockhouse: Lockhouse,
    request: Request,
    holding: Holding,
    held: bool,
}

impl Permit {
    pub(crate) fn new(lockhouse: Lockhouse, request: Request, sent_at: Instant) -> Self {
        let held = Held::Request(request.external_id.clone());
        let holding = Holding::new(&lockhouse, held, request.ttl, sent_at);
        Self {
            lockhouse,
            request,
            holding,
            held: true,
        }
    }

    /// The id that it is known by.
    pub fn external_id(&self) -> &ExternalId {
        &self.request.external_id
    }

    /// The request as it was granted.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The fence on `semaphore`: a number that rises with every grant on it, for the resource
    /// downstream to check (P7).
    ///
    /// # Panics
    /// If the request was not for `semaphore`; [`fences`](Permit::fences) has all there are.
    #[track_caller]
    pub fn fence(&self, semaphore: &str) -> u64 {
        let mut fences = self.fences();
        match fences.find(|(name, _)| *name == semaphore) {
            Some((_, fence)) => fence,
            None => panic!(
                "request {} holds nothing of {semaphore:?}",
                self.request.external_id
            ),
        }
    }

    /// The fence on each semaphore, in byte order of the names.
    pub fn fences(&self) -> impl Iterator<Item = (&str, u64)> {
        self.request
            .permits
            .iter()
            .map(|permit| (permit.semaphore.as_str(), permit.fence))
    }

    /// Resolves when the hold is lost: ended by somebody else, or not renewed in time. Stop what
    /// the permit was for. A hold without a time to live is never known to be lost.
    pub async fn lost(&self) -> Lost {
        self.holding.lost().await
    }

    /// Until when the hold is surely not somebody else's, by this process's monotonic clock: a
    /// tenth of its time to live before the store could end it. Every renewal moves it on, and if
    /// none does, [`lost`](Permit::lost) resolves then. A hold without a time to live has none.
    pub fn held_until(&self) -> Option<std::time::Instant> {
        self.holding.held_until().map(Instant::into_std)
    }

    /// Whether the hold is lost.
    pub fn is_lost(&self) -> bool {
        self.holding.is_lost()
    }

    /// Gives the permits back, and says whether they were still held until now.
    ///
    /// # Errors
    /// `store_unavailable`; the time to live then ends the hold, if it has one.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.holding.stop();
        let released = self.lockhouse.release(&self.request.external_id).await;
        // If this future is dropped before, the drop of the permit gives it back.
        self.held = false;
        released
    }

    /// Lets go without giving back. Nothing renews the hold any more, so it ends with its time to
    /// live, or when somebody releases it by its id.
    pub fn forget(mut self) -> ExternalId {
        self.held = false;
        self.request.external_id.clone()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (lockhouse, external_id) = (self.lockhouse.clone(), self.external_id().clone());
        runtime.spawn(async move {
            if let Err(error) = lockhouse.release(&external_id).await {
                tracing::warn!(%external_id, %error, "a dropped permit could not be given back");
            }
        });
    }
}
