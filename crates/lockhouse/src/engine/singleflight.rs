//! Singleflight: calls that need the same work at about the same time share one run of it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::SetOnce;
use tokio::time::Instant;

/// Runs that are under way, one for each key.
#[derive(Debug)]
pub(super) struct Singleflight<K, V> {
    flights: Mutex<HashMap<K, Flight<V>>>,
}

/// A run that is under way. It knows of what happened before it began. What happened since, or was only saved since, as a
/// commit may take longer than a TTL, it may have missed.
#[derive(Debug)]
pub(super) struct Flight<V> {
    pub(super) begun: Instant,
    /// The result, or none if the run failed; not set while it is under way. Those that wait for it are woken in order, so
    /// that a simulated run can be repeated.
    pub(super) result: Arc<SetOnce<Option<V>>>,
}

/// What a call has to do about its keys.
pub(super) struct Flights<K, V> {
    /// The keys that no other call works on. Others wait for the `leader` to be dropped, or to finish.
    pub(super) own: Vec<K>,
    pub(super) leader: Leader<V>,
    /// The keys that others work on.
    pub(super) by_others: Vec<(K, Flight<V>)>,
}

/// The call that does the work. Others learn that it failed when this is dropped before it has finished.
pub(super) struct Leader<V>(Arc<SetOnce<Option<V>>>);

impl<K: Clone + Eq + Hash, V> Singleflight<K, V> {
    pub(super) fn new() -> Self {
        Self {
            flights: Mutex::default(),
        }
    }

    /// Joins the runs that are under way for `keys`, and begins one for the others.
    pub(super) fn join(&self, keys: &[K]) -> Flights<K, V> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| !flight.result.initialized());
        let own = Flight {
            begun: Instant::now(),
            result: Arc::new(SetOnce::new()),
        };
        let mut joined = Flights {
            own: Vec::new(),
            leader: Leader(Arc::clone(&own.result)),
            by_others: Vec::new(),
        };
        for key in keys {
            match flights.get(key) {
                Some(flight) => joined.by_others.push((key.clone(), flight.clone())),
                None => {
                    flights.insert(key.clone(), own.clone());
                    joined.own.push(key.clone());
                }
            }
        }
        joined
    }
}

impl<V> Clone for Flight<V> {
    fn clone(&self) -> Self {
        Self {
            begun: self.begun,
            result: Arc::clone(&self.result),
        }
    }
}

impl<V> Leader<V> {
    /// The work is done.
    pub(super) fn finish(self, result: V) {
        // Only the leader sets it.
        let _ = self.0.set(Some(result));
    }
}

impl<V> Drop for Leader<V> {
    fn drop(&mut self) {
        // Unless it has finished.
        let _ = self.0.set(None);
    }
}

/// Keys that somebody works on.
#[derive(Debug)]
pub(super) struct InFlight<K>(Arc<Mutex<HashSet<K>>>);

/// Keys that one call works on, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard<K: Eq + Hash> {
    keys: Vec<K>,
    all: Arc<Mutex<HashSet<K>>>,
}

impl<K: Clone + Eq + Hash> InFlight<K> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Keeps those of `items` whose key nobody works on yet.
    pub(super) fn begin<T>(&self, items: &mut Vec<T>, key: impl Fn(&T) -> &K) -> InFlightGuard<K> {
        let mut all = lock(&self.0);
        items.retain(|item| all.insert(key(item).clone()));
        InFlightGuard {
            keys: items.iter().map(|item| key(item).clone()).collect(),
            all: Arc::clone(&self.0),
        }
    }
}

impl<K: Eq + Hash> Drop for InFlightGuard<K> {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        for key in mem::take(&mut self.keys) {
            all.remove(&key);
        }
    }
}

fn lock<K>(all: &Mutex<HashSet<K>>) -> MutexGuard<'_, HashSet<K>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_at_about_the_same_time_share_one_run() {
        let flights = Singleflight::<&str, u32>::new();
        let first = flights.join(&["a", "b"]);
        assert_eq!(first.own, ["a", "b"]);
        let second = flights.join(&["b", "c"]);
        assert_eq!(second.own, ["c"]);
        let (key, flight) = &second.by_others[0];
        assert_eq!(*key, "b");
        first.leader.finish(7);
        assert_eq!(*flight.result.wait().await, Some(7));
        assert_eq!(flights.join(&["a"]).own, ["a"], "the first has ended");
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_has_failed() {
        let flights = Singleflight::<&str, u32>::new();
        let first = flights.join(&["a"]);
        let second = flights.join(&["a"]);
        drop(first);
        assert_eq!(*second.by_others[0].1.result.wait().await, None);
    }

    #[test]
    fn a_key_is_worked_on_by_one_call_until_its_guard_is_dropped() {
        let in_flight = InFlight::new();
        let mut items = vec![1, 2];
        let guard = in_flight.begin(&mut items, |item| item);
        let mut others = vec![2, 3];
        let _other = in_flight.begin(&mut others, |item| item);
        assert_eq!((items, others), (vec![1, 2], vec![3]));
        drop(guard);
        let mut again = vec![1, 2, 3];
        let _again = in_flight.begin(&mut again, |item| item);
        assert_eq!(again, [1, 2]);
    }
}
