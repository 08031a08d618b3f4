//! What requests that were asked for here lately are for, and when they expire.
//!
//! It spares a read before a release or a renewal, tells what a release will give back, and when to
//! look for a holder that died. It may forget: what it does not know is read.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Ask, Count, ExternalId, SemaphoreName};
use lru::LruCache;
use tokio::time::Instant;

/// About 30 MB when full of requests on one semaphore each.
const MOST: usize = 100_000;

/// The clocks of processes tell milliseconds at best.
const TICK: Duration = Duration::from_millis(1);

/// What is known of a request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) permits: Vec<(SemaphoreName, Count)>,
    /// Whether it was granted.
    pub(super) is_held: bool,
    /// When it is surely over, unless it is renewed.
    expires: Option<Instant>,
}

/// When holds on a semaphore expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    /// Whether one has.
    pub(super) is_past: bool,
    /// When the next will.
    pub(super) next: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Known(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    by_id: LruCache<ExternalId, Request>,
    expiring: HashMap<SemaphoreName, BTreeSet<(Instant, ExternalId)>>,
}

impl Known {
    pub(super) fn new() -> Self {
        // Unbounded, so that it takes no memory beforehand; `insert` keeps the bound.
        Self(Mutex::new(Requests {
            by_id: LruCache::unbounded(),
            expiring: HashMap::new(),
        }))
    }

    pub(super) fn get(&self, external_id: &ExternalId) -> Option<Request> {
        self.requests().by_id.get(external_id).cloned()
    }

    pub(super) fn insert(&self, ask: &Ask) {
        let mut requests = self.requests();
        let before = requests.by_id.get(&ask.external_id);
        if before.is_some_and(|before| before.is_held) {
            return;
        }
        let permits = ask.permits().map(|(name, count)| (name.clone(), count));
        let asked = Request {
            permits: permits.collect(),
            is_held: false,
            expires: None,
        };
        requests.by_id.put(ask.external_id.clone(), asked);
        if requests.by_id.len() > MOST
            && let Some((external_id, oldest)) = requests.by_id.pop_lru()
        {
            requests.expect_no_more(&external_id, &oldest);
        }
    }

    /// It was granted, and lasts so long from a moment ago on.
    pub(super) fn hold(&self, external_id: &ExternalId, lasts: Option<Duration>) {
        self.requests().hold(external_id, lasts);
    }

    /// Forgets it; what it held, if that was known.
    pub(super) fn remove(&self, external_id: &ExternalId) -> Vec<(SemaphoreName, Count)> {
        let mut requests = self.requests();
        let Some(request) = requests.by_id.pop(external_id) else {
            return Vec::new();
        };
        requests.expect_no_more(external_id, &request);
        if request.is_held {
            request.permits
        } else {
            Vec::new()
        }
    }

    /// What is to expire on `name`. Of what has by now, it is told once.
    pub(super) fn expiry(&self, name: &SemaphoreName, now: Instant) -> Expiry {
        let mut requests = self.requests();
        let mut expiry = Expiry::default();
        let Some(expiring) = requests.expiring.get_mut(name) else {
            return expiry;
        };
        while let Some((at, _)) = expiring.first() {
            if *at > now {
                expiry.next = Some(*at);
                return expiry;
            }
            expiry.is_past = true;
            expiring.pop_first();
        }
        requests.expiring.remove(name);
        expiry
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    fn hold(&mut self, external_id: &ExternalId, lasts: Option<Duration>) {
        let Some(request) = self.by_id.get_mut(external_id) else {
            return;
        };
        let before = request.clone();
        request.is_held = true;
        request.expires = lasts.and_then(|lasts| Instant::now().checked_add(lasts + TICK));
        let expires = request.expires;
        self.expect_no_more(external_id, &before);
        if let Some(at) = expires {
            for (name, _) in &before.permits {
                let expiring = self.expiring.entry(name.clone()).or_default();
                expiring.insert((at, external_id.clone()));
            }
        }
    }

    /// `request` does not expire when it would have.
    fn expect_no_more(&mut self, external_id: &ExternalId, request: &Request) {
        let Some(at) = request.expires else {
            return;
        };
        let entry = (at, external_id.clone());
        for (name, _) in &request.permits {
            if let Some(expiring) = self.expiring.get_mut(name) {
                expiring.remove(&entry);
                if expiring.is_empty() {
                    self.expiring.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ExternalId {
        ExternalId::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_hold_that_expires_is_known_until_it_is_renewed_or_over() {
        let known = Known::new();
        let [a, b] = ["a", "b"].map(|name| SemaphoreName::parse(name).unwrap());
        let now = Instant::now();
        let secs = |secs| now + Duration::from_secs(secs) + TICK;
        for (name, on, lasts) in [("x", &a, Some(9)), ("y", &a, Some(3)), ("z", &b, None)] {
            let ask = Ask::new(id(name), [(on.clone(), Count::ONE)]).unwrap();
            known.insert(&ask);
            known.hold(&id(name), lasts.map(Duration::from_secs));
            known.insert(&ask);
        }
        let expiry = |is_past, next: Option<u64>| Expiry {
            is_past,
            next: next.map(secs),
        };
        assert_eq!(known.expiry(&a, now), expiry(false, Some(3)));
        assert_eq!(known.expiry(&b, now), expiry(false, None));
        known.hold(&id("y"), Some(Duration::from_secs(12)));
        assert_eq!(known.expiry(&a, now), expiry(false, Some(9)));
        assert_eq!(known.expiry(&a, secs(9)), expiry(true, Some(12)));
        assert_eq!(known.expiry(&a, secs(9)), expiry(false, Some(12)));
        assert_eq!(known.remove(&id("y")), [(a.clone(), Count::ONE)]);
        assert_eq!(known.expiry(&a, now), expiry(false, None));
        assert!(known.requests().expiring.is_empty());
    }
}
