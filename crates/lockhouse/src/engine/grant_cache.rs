//! The grant cache: the permits of requests that this process acquired lately, and when they
//! expire.
//!
//! The cache saves a read before a release. It knows which permits a release will free, and when to
//! look for a holder that died. It may forget a request, which is then read from the store. It
//! forgets refused asks at once, and the least recently used requests when all of them take too
//! much memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Ask, Count, ExternalId, SemaphoreName};
use lru::LruCache;
use tokio::time::Instant;

/// About how much memory it may take: that of 100,000 requests on one semaphore each.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// About how many bytes a request takes beside its texts, and the same of each of its permits.
const REQUEST_BYTES: usize = 192;
const PERMIT_BYTES: usize = 128;

/// The clocks of processes tell milliseconds at best.
const TICK: Duration = Duration::from_millis(1);

/// The entry of a request.
#[derive(Clone, Debug)]
pub(super) struct KnownRequest {
    pub(super) permits: Vec<(SemaphoreName, Count)>,
    /// Whether it was granted.
    pub(super) is_held: bool,
    /// While it is not held: how many asks for it are not answered yet.
    asked: u32,
    /// When it has certainly expired, unless it is renewed.
    expires: Option<Instant>,
}

/// When holds on a semaphore expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    /// Whether one has expired.
    pub(super) is_past: bool,
    /// When the next one will expire.
    pub(super) next: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct GrantCache(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    by_id: LruCache<ExternalId, KnownRequest>,
    expiring: HashMap<SemaphoreName, BTreeSet<(Instant, ExternalId)>>,
    /// About how much memory all of them take.
    bytes: usize,
}

impl GrantCache {
    pub(super) fn new() -> Self {
        // Unbounded, so that it allocates nothing in advance. `insert` keeps the bound.
        Self(Mutex::new(Requests {
            by_id: LruCache::unbounded(),
            expiring: HashMap::new(),
            bytes: 0,
        }))
    }

    pub(super) fn get(&self, external_id: &ExternalId) -> Option<KnownRequest> {
        self.requests().by_id.get(external_id).cloned()
    }

    /// Adds a request that a caller asks for. It stays until it is held or [refused](Self::refuse).
    pub(super) fn insert(&self, ask: &Ask) {
        let mut requests = self.requests();
        let before = requests.by_id.get(&ask.external_id);
        if before.is_some_and(|before| before.is_held) {
            return;
        }
        let asked = before.map_or(0, |before| before.asked);
        let permits = ask.permits().map(|(name, count)| (name.clone(), count));
        let request = KnownRequest {
            permits: permits.collect(),
            is_held: false,
            asked: asked + 1,
            expires: None,
        };
        requests.put(&ask.external_id, request);
    }

    /// Records that one ask for it was refused.
    pub(super) fn refuse(&self, external_id: &ExternalId) {
        let mut requests = self.requests();
        let Some(request) = requests.by_id.peek_mut(external_id) else {
            return;
        };
        request.asked = request.asked.saturating_sub(1);
        if request.asked == 0 && !request.is_held {
            requests.pop(external_id);
        }
    }

    /// Records that it was granted, or renewed, a moment ago and lasts for `lasts`.
    pub(super) fn hold(&self, external_id: &ExternalId, lasts: Option<Duration>) {
        self.requests().hold(external_id, lasts);
    }

    /// Forgets the request. Returns the permits that it held, if known.
    pub(super) fn remove(&self, external_id: &ExternalId) -> Vec<(SemaphoreName, Count)> {
        let mut requests = self.requests();
        let Some(request) = requests.pop(external_id) else {
            return Vec::new();
        };
        if request.is_held {
            request.permits
        } else {
            Vec::new()
        }
    }

    /// When holds on `name` expire. Each expiry that has passed is reported once.
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
    /// Replaces the request's entry, and evicts the least recently used entries beyond the memory
    /// bound.
    fn put(&mut self, external_id: &ExternalId, request: KnownRequest) {
        self.pop(external_id);
        self.bytes += bytes(external_id, &request);
        self.by_id.put(external_id.clone(), request);
        while self.bytes > MOST_BYTES
            && let Some((oldest, request)) = self.by_id.pop_lru()
        {
            self.forget(&oldest, &request);
        }
    }

    fn pop(&mut self, external_id: &ExternalId) -> Option<KnownRequest> {
        let request = self.by_id.pop(external_id)?;
        self.forget(external_id, &request);
        Some(request)
    }

    /// Subtracts the memory of `request`, which was removed, and forgets when it expires.
    fn forget(&mut self, external_id: &ExternalId, request: &KnownRequest) {
        self.bytes -= bytes(external_id, request);
        self.expect_no_more(external_id, request);
    }

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

    /// Forgets the expiry time of `request`.
    fn expect_no_more(&mut self, external_id: &ExternalId, request: &KnownRequest) {
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

/// About how much memory a request's entry takes. It does not change while the entry exists.
fn bytes(external_id: &ExternalId, request: &KnownRequest) -> usize {
    let permits = request.permits.iter();
    let permits = permits.map(|(name, _)| PERMIT_BYTES + name.as_str().len());
    REQUEST_BYTES + external_id.as_str().len() + permits.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ExternalId {
        ExternalId::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_hold_that_expires_is_known_until_it_is_renewed_or_over() {
        let grants = GrantCache::new();
        let [a, b] = ["a", "b"].map(|name| SemaphoreName::parse(name).unwrap());
        let now = Instant::now();
        let secs = |secs| now + Duration::from_secs(secs) + TICK;
        for (name, on, lasts) in [("x", &a, Some(9)), ("y", &a, Some(3)), ("z", &b, None)] {
            let ask = Ask::new(id(name), [(on.clone(), Count::ONE)]).unwrap();
            grants.insert(&ask);
            grants.hold(&id(name), lasts.map(Duration::from_secs));
            grants.insert(&ask);
        }
        let expiry = |is_past, next: Option<u64>| Expiry {
            is_past,
            next: next.map(secs),
        };
        assert_eq!(grants.expiry(&a, now), expiry(false, Some(3)));
        assert_eq!(grants.expiry(&b, now), expiry(false, None));
        grants.hold(&id("y"), Some(Duration::from_secs(12)));
        assert_eq!(grants.expiry(&a, now), expiry(false, Some(9)));
        assert_eq!(grants.expiry(&a, secs(9)), expiry(true, Some(12)));
        assert_eq!(grants.expiry(&a, secs(9)), expiry(false, Some(12)));
        assert_eq!(grants.remove(&id("y")), [(a.clone(), Count::ONE)]);
        assert_eq!(grants.expiry(&a, now), expiry(false, None));
        assert!(grants.requests().expiring.is_empty());
    }

    #[test]
    fn a_refused_ask_is_forgotten_when_nobody_else_asks_for_the_same() {
        let grants = GrantCache::new();
        let a = SemaphoreName::parse("a").unwrap();
        let ask = Ask::new(id("x"), [(a, Count::ONE)]).unwrap();
        grants.insert(&ask);
        grants.insert(&ask);
        grants.refuse(&id("x"));
        assert!(grants.get(&id("x")).is_some(), "the other is not answered");
        grants.refuse(&id("x"));
        assert!(grants.get(&id("x")).is_none());
        grants.insert(&ask);
        grants.hold(&id("x"), None);
        grants.insert(&ask);
        grants.refuse(&id("x"));
        assert!(grants.get(&id("x")).is_some(), "it is held");
        grants.remove(&id("x"));
        assert_eq!(grants.requests().bytes, 0);
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let grants = GrantCache::new();
        let name = |n: usize| SemaphoreName::parse(format!("{n:0>255}")).unwrap();
        for n in 0..2_000 {
            let permits = (0..64).map(|n| (name(n), Count::ONE));
            let ask = Ask::new(id(&format!("id-{n}")), permits).unwrap();
            grants.insert(&ask);
            grants.hold(&ask.external_id, Some(Duration::from_secs(60)));
        }
        let requests = grants.requests();
        assert!(requests.bytes <= MOST_BYTES);
        assert!(requests.by_id.peek(&id("id-1999")).is_some());
        assert!(requests.by_id.peek(&id("id-0")).is_none());
        let expiring = &requests.expiring[&name(0)];
        assert_eq!(expiring.len(), requests.by_id.len());
        let bytes = requests
            .by_id
            .iter()
            .map(|(id, request)| bytes(id, request));
        assert_eq!(bytes.sum::<usize>(), requests.bytes);
    }
}
