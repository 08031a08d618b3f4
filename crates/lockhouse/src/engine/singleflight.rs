//! Keeps track of the looks for lapsed requests, and of the ends, that are under way, so that no two callers do the same
//! work at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use lockhouse_core::{ExternalId, Request, SemaphoreName, SemaphoreRow};
use tokio::sync::SetOnce;
use tokio::time::Instant;

/// The requests that the poller is ending.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<Mutex<HashSet<ExternalId>>>);

impl Ending {
    /// The requests of `due` that are not being ended yet. They count as being ended until the
    /// returned guard is dropped.
    pub(super) fn begin(&self, mut due: Vec<Request>) -> (Vec<Request>, Underway) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        due.retain(|request| ending.insert(request.external_id.clone()));
        let ids = due.iter().map(|request| request.external_id.clone());
        let underway = Underway {
            ids: ids.collect(),
            ending: self.clone(),
        };
        (due, underway)
    }
}

/// The requests that one look began to end.
pub(super) struct Underway {
    ids: Vec<ExternalId>,
    ending: Ending,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let ending = &self.ending.0;
        let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &self.ids {
            ending.remove(id);
        }
    }
}

/// The looks for lapsed requests that are under way. Callers that are refused at about the same time share one look.
#[derive(Debug, Default)]
pub(super) struct Singleflight {
    looks: Mutex<HashMap<SemaphoreName, Flight>>,
}

/// One look for lapsed requests. It finds every request that had lapsed when it began. It may miss
/// requests that lapsed or were saved later: a commit may take longer than a TTL.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) begun: Instant,
    /// Its result, `None` if it failed; not set while it is under way. Its waiters are woken in
    /// order, so that a simulated run can be repeated.
    pub(super) found: Arc<SetOnce<Option<Found>>>,
}

/// The result of a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Whether a request ended that was in the way.
    pub(super) is_over: bool,
    /// The semaphores after the look, since other processes may have ended requests just before it.
    pub(super) semaphores: Vec<SemaphoreRow>,
}

/// Tells the callers that share a look its result, or its failure if this is dropped without a result.
pub(super) struct Leader(Arc<SetOnce<Option<Found>>>);

impl Leader {
    pub(super) fn tell(&self, found: Found) {
        // This is called once.
        let _ = self.0.set(Some(found));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // Fails if a result was set before, which is right.
        let _ = self.0.set(None);
    }
}

/// The looks that a caller needs.
pub(super) struct Joined {
    /// The semaphores that the caller has to look at. Other callers wait until this is dropped or
    /// has a result.
    pub(super) names: Vec<SemaphoreName>,
    pub(super) leader: Leader,
    /// Looks that other callers have begun.
    pub(super) by_others: Vec<(SemaphoreName, Flight)>,
}

impl Singleflight {
    /// The looks that a caller which needs `names` has to do, or to wait for.
    pub(super) fn begin(&self, names: &[SemaphoreName]) -> Joined {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, look| !look.found.initialized());
        let found = Arc::new(SetOnce::new());
        let begun = Instant::now();
        let mut to_look = Joined {
            names: Vec::new(),
            leader: Leader(Arc::clone(&found)),
            by_others: Vec::new(),
        };
        for name in names {
            match looks.get(name) {
                Some(look) => to_look.by_others.push((name.clone(), look.clone())),
                None => {
                    let found = Arc::clone(&found);
                    looks.insert(name.clone(), Flight { begun, found });
                    to_look.names.push(name.clone());
                }
            }
        }
        to_look
    }
}
