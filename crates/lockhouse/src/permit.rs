//! What is held.

use std::future::pending;
use std::sync::{Arc, mpsc};

use lockhouse_core::{ExternalId, Owner, Request};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::background::{Dropped, UnderWay};
use crate::holding::{Held, Holding};
use crate::{Error, Lockhouse, Lost, Released, who};

/// Permits that are held: renewed in the background, given back by
/// [`release`](Permit::release) or on drop.
///
/// Unlike `tokio::sync::SemaphorePermit` it borrows nothing, so it goes wherever you like, and it
/// can be [lost](Permit::lost): the store ends a hold that it hears nothing of, as it can't tell a
/// slow holder from a dead one.
///
/// Dropping it gives the permits back in the background, on the runtime that it was acquired on. A later
/// [`try_acquire`](crate::Semaphore::try_acquire) of the same client, or of a clone, waits until they are
/// back, for 0.4 s at most.
///
/// If the store does not answer, the library tries again to give back a permit whose id it made. A permit
/// whose id is the caller's own stays then, for a retry with that id, until its time to live or its session
/// ends it. [`Lockhouse::close`] waits for the first try. If that runtime is gone, nothing can be given back.
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    lockhouse: Lockhouse,
    request: Request,
    /// If the request has a time to live.
    own: Option<Holding>,
    /// If a session keeps it.
    session: Option<Arc<Holding>>,
    runtime: Handle,
    /// Whether the library made the id.
    is_anonymous: bool,
    held: bool,
    /// From when its release begins.
    under_way: Option<UnderWay>,
}

impl Permit {
    /// What was granted to an ask that was sent then; `session` keeps it too. If it `is_anonymous`, the
    /// library made the id.
    pub(crate) fn new(
        lockhouse: Lockhouse,
        request: Request,
        sent_at: Instant,
        session: Option<Arc<Holding>>,
        is_anonymous: bool,
    ) -> Self {
        let held = Held::Request(request.external_id.clone());
        let own = request
            .ttl
            .map(|ttl| Holding::new(&lockhouse, held, ttl, sent_at));
        Self {
            lockhouse,
            request,
            own,
            session,
            runtime: Handle::current(),
            is_anonymous,
            held: true,
            under_way: None,
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

    /// How many permits are held, on all its semaphores together.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire_many(3).await?;
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn num_permits(&self) -> u64 {
        let counts = self
            .request
            .permits
            .iter()
            .map(|permit| permit.count.value());
        counts.map(u64::from).sum()
    }

    /// Resolves when the hold is lost: ended by somebody else, or not renewed in time. Stop what
    /// the permit was for.
    ///
    /// That is a tenth of the time to live before the store could grant the permits to another,
    /// also when the network is cut; and when this process was stopped for longer, it is so at the
    /// first look. Only a process that is stopped between its look and its deed can't be helped by
    /// this: that is what [fences](Permit::fence) are for.
    ///
    /// A hold that neither a time to live nor a session ends is never known to be lost. One that
    /// only a session keeps is lost with it, and says nothing of its being ended alone.
    ///
    /// The clock is the system's monotonic one. On Linux it stands still while the machine is
    /// suspended, so after that a hold may seem good until its next renewal.
    pub async fn lost(&self) -> Lost {
        let of = async |holding: Option<&Holding>| match holding {
            Some(holding) => holding.lost().await,
            None => pending().await,
        };
        tokio::select! {
            lost = of(self.own.as_ref()) => lost,
            lost = of(self.session.as_deref()) => lost,
        }
    }

    /// Until when the hold is surely not somebody else's, by this process's monotonic clock: a
    /// tenth of its time to live before the store could end it. Every renewal moves it on, and if
    /// none does, [`lost`](Permit::lost) resolves then. A hold that never ends by itself has none.
    pub fn held_until(&self) -> Option<std::time::Instant> {
        let until = self.holdings().map(Holding::held_until).min();
        until.map(Instant::into_std)
    }

    /// Whether the hold is lost, by the clock as it is now: see [`lost`](Permit::lost). Once true,
    /// it stays so.
    pub fn is_lost(&self) -> bool {
        self.holdings().any(|holding| holding.is_lost().is_some())
    }

    fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.own.iter().chain(self.session.as_deref())
    }

    /// Gives the permits back, and says whether they were still held until now.
    ///
    /// # Errors
    /// `store_unavailable`; it is then given back in the background, as if it were dropped.
    pub async fn release(mut self) -> Result<Released, Error> {
        if let Some(own) = &self.own {
            own.stop();
        }
        self.release_begins();
        let (external_id, by) = (self.external_id().clone(), self.holder());
        let released = self.lockhouse.release_as(external_id, by).await;
        // Otherwise, or if this future is dropped before, the drop of the permit gives it back.
        self.held = !matches!(released, Ok(_) | Err(Error::Refused(_)));
        released
    }

    /// Who releases it: its owner, or this process if it has none.
    fn holder(&self) -> Option<Owner> {
        self.request.owner.clone().or_else(who::this_process)
    }

    /// Lets go without giving back. Nothing renews the hold any more, so it ends with its time to
    /// live, or when somebody releases it by its id.
    ///
    /// That differs from tokio's, where what was forgotten is gone for good. Here only a request
    /// without a time to live stays; to take permits away, [`resize`](crate::Semaphore::resize).
    pub fn forget(mut self) -> ExternalId {
        self.held = false;
        self.request.external_id.clone()
    }
}

impl Permit {
    /// What dropping it does; the receiver gets a message when it is given back.
    #[must_use]
    pub(crate) fn give_back(mut self) -> mpsc::Receiver<()> {
        self.held = false;
        self.release_in_background()
    }

    /// Asks that do not wait and begin from now on come after it.
    fn release_begins(&mut self) {
        if self.under_way.is_none() {
            let permits = self.request.permits.iter();
            let semaphores = permits.map(|permit| permit.semaphore.clone());
            self.under_way = Some(self.lockhouse.background().release_begins(semaphores));
        }
    }

    fn release_in_background(&mut self) -> mpsc::Receiver<()> {
        self.release_begins();
        let dropped = Dropped {
            external_id: self.external_id().clone(),
            by: self.holder(),
            is_anonymous: self.is_anonymous,
            ends_at: self.own.as_ref().map(Holding::held_until),
            under_way: self.under_way.take(),
            may_come_yet: false,
        };
        let background = self.lockhouse.background();
        background.give_back(&self.lockhouse, &self.runtime, dropped)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held {
            self.release_in_background();
        }
    }
}
