//! Leader election for the upkeep: the leader holds the permit of a reserved semaphore of capacity 1.
//!
//! Callers cannot name that semaphore. Older versions allowed it, so a database may hold a caller's
//! request on it. A process that finds one ends it.

use std::time::Duration;

use lockhouse_core::store::{Holders, Page};
use lockhouse_core::{
    Ask, Capacity, Cause, Command, Count, Definition, ExternalId, Owner, Request, SemaphoreName,
    Ttl,
};
use tokio::sync::{Mutex, watch};

use super::UpkeepState;
use crate::engine::Engine;
use crate::{Code, Error, Lockhouse, Permit};

/// The reserved semaphore.
const SEMAPHORE: &str = "lockhouse:upkeep";

/// The longest TTL of the permit. After the leader died, another process takes over when it next runs a task after that time.
pub(super) const MOST_TTL: Duration = Duration::from_secs(30);

/// The shortest TTL: a process that is merely slow should keep the permit.
pub(super) const LEAST_TTL: Duration = Duration::from_secs(1);

/// The permit of the upkeep, if this process leads.
pub(super) struct Leadership<'a> {
    lockhouse: &'a Lockhouse,
    engine: &'a Engine,
    ttl: Duration,
    permit: Mutex<Option<Permit>>,
    /// Its sender is dropped when the upkeep is stopped.
    stopped: watch::Receiver<()>,
}

impl<'a> Leadership<'a> {
    pub(super) fn new(
        lockhouse: &'a Lockhouse,
        engine: &'a Engine,
        ttl: Duration,
        stopped: watch::Receiver<()>,
    ) -> Self {
        Self {
            lockhouse,
            engine,
            ttl,
            permit: Mutex::new(None),
            stopped,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.has_changed().is_err()
    }

    /// Waits until the upkeep is stopped.
    pub(super) async fn stopped(&self) {
        // Nothing is sent.
        let _ = self.stopped.clone().changed().await;
    }

    /// The request of the permit, if this process leads. Tries to take the permit if it does not, unless the upkeep is
    /// stopped. Must not be dropped before it returns: [`leave`](Self::leave) would not know of a permit that is granted
    /// afterwards.
    pub(super) async fn term(&self) -> Option<ExternalId> {
        let mut permit = self.permit.lock().await;
        if self.is_stopped() {
            return None;
        }
        if permit.as_ref().is_none_or(Permit::is_lost) {
            let (taken, state) = match self.take().await {
                Ok(Some(taken)) => (Some(taken), UpkeepState::Working),
                Ok(None) => (None, UpkeepState::Standby),
                Err(error) => (None, UpkeepState::Failing(error.to_string())),
            };
            *permit = taken;
            self.engine.upkeep().takes_role(state);
        }
        permit.as_ref().map(|permit| permit.external_id().clone())
    }

    /// Releases the permit, if this process has it. If that fails, the permit expires.
    pub(super) async fn leave(self) {
        self.engine.upkeep().takes_role(UpkeepState::Off);
        let Some(permit) = self.permit.into_inner() else {
            return;
        };
        if let Err(error) = permit.release().await {
            tracing::warn!(%error, "the upkeep's permit could not be given back, it lapses");
        }
    }

    /// Takes the permit. Returns `None` if another process has it.
    async fn take(&self) -> Result<Option<Permit>, Error> {
        let name = SemaphoreName::stored(SEMAPHORE)?;
        // This also restores the capacity after a resize.
        let definition = Definition::new(name.clone(), Capacity::new(1)?);
        self.engine.define(definition).await?;
        match self.ask(&name).await {
            Err(error) if error.code() == Code::Exhausted => {}
            taken => return taken.map(Some),
        }
        if !self.end_strangers(&name).await? {
            return Ok(None);
        }
        match self.ask(&name).await {
            Err(error) if error.code() == Code::Exhausted => Ok(None),
            taken => taken.map(Some),
        }
    }

    async fn ask(&self, name: &SemaphoreName) -> Result<Permit, Error> {
        let id = ExternalId::parse(uuid::Uuid::now_v7().to_string())?;
        let mut ask = Ask::new(id, [(name.clone(), Count::ONE)])?;
        ask.ttl = Some(Ttl::new(self.ttl)?);
        let builder = self.lockhouse.request().ttl(self.ttl);
        builder.hold(ask, Duration::ZERO).await
    }

    /// Ends requests on the reserved semaphore that no upkeep made. Returns whether there were any.
    async fn end_strangers(&self, name: &SemaphoreName) -> Result<bool, Error> {
        let page = Page {
            after: None,
            limit: 100,
        };
        let on = Holders::on(name.clone());
        let holders = self.engine.holders(&on, &page).await?;
        let mut found = false;
        for stranger in holders
            .requests
            .iter()
            .filter(|request| !is_a_leader(request))
        {
            if !stranger.is_reserved() {
                let text = format!(
                    "request \"{}\" holds {name:?} together with other semaphores; release it",
                    stranger.external_id
                );
                return Err(Error::Internal(text));
            }
            let end = Command::End {
                external_id: stranger.external_id.clone(),
                cause: Cause::Forced {
                    by: Some(Owner::lockhouse()),
                },
            };
            self.engine.execute(end).await?;
            let (external_id, owner) = (&stranger.external_id, &stranger.owner);
            tracing::warn!(%external_id, ?owner, "a request held the upkeep's reserved permit, and was ended");
            found = true;
        }
        Ok(found)
    }
}

/// Whether a process that does upkeep may have made the request.
fn is_a_leader(request: &Request) -> bool {
    let is_short = |ttl: Ttl| ttl.as_duration() <= MOST_TTL;
    request.owner.is_none()
        && request.ttl.is_some_and(is_short)
        && matches!(&request.permits[..], [permit] if permit.count == Count::ONE)
}
