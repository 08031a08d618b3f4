//! Rate limits: how many events may come at once, and after what interval one more may come.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

/// The events that may come: a burst, and then one each interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// How many may come at once.
    pub(crate) burst: u32,
    /// The interval after which one more may come.
    pub(crate) every: Duration,
}

/// How much of a rate is used up.
#[derive(Clone, Copy, Debug)]
struct Used {
    left: u32,
    since: Instant,
    /// How many events were over the limit since the last one that was within it.
    left_out: u64,
}

/// A rate for each of the keys that were seen last.
#[derive(Debug)]
pub(crate) struct Rates<K: Eq + Hash> {
    rate: Rate,
    used: Mutex<LruCache<K, Used>>,
}

/// One rate for all.
#[derive(Debug)]
pub(crate) struct OneRate {
    rate: Rate,
    used: Mutex<Option<Used>>,
}

impl Rate {
    fn unused(self, now: Instant) -> Used {
        Used {
            left: self.burst,
            since: now,
            left_out: 0,
        }
    }

    /// Counts one more event. Returns how many were over the limit just before it, or `None` if it is over the limit itself.
    fn take(self, used: &mut Used, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(used.since);
        let more = passed.as_millis() / self.every.as_millis().max(1);
        let more = u32::try_from(more).unwrap_or(self.burst);
        if more > 0 {
            used.left = used.left.saturating_add(more).min(self.burst);
            used.since = now;
        }
        if used.left == 0 {
            used.left_out += 1;
            return None;
        }
        used.left -= 1;
        Some(std::mem::take(&mut used.left_out))
    }
}

impl<K: Eq + Hash> Rates<K> {
    pub(crate) fn new(rate: Rate, keys: NonZeroUsize) -> Self {
        Self {
            rate,
            used: Mutex::new(LruCache::new(keys)),
        }
    }

    /// Counts one more event of `key`. Returns how many of its events were over the limit just before it, or `None` if it is
    /// over the limit itself.
    pub(crate) fn take(&self, key: K) -> Option<u64> {
        self.take_at(key, Instant::now())
    }

    pub(crate) fn take_at(&self, key: K, now: Instant) -> Option<u64> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.get_or_insert_mut(key, || self.rate.unused(now));
        self.rate.take(used, now)
    }
}

impl OneRate {
    pub(crate) const fn new(rate: Rate) -> Self {
        Self {
            rate,
            used: Mutex::new(None),
        }
    }

    /// Counts one more event. Returns how many were over the limit just before it, or `None` if it is over the limit itself.
    pub(crate) fn take(&self) -> Option<u64> {
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.rate
            .take(used.get_or_insert_with(|| self.rate.unused(now)), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K: Eq + Hash> Rates<K> {
        pub(crate) fn keys(&self) -> usize {
            self.used.lock().unwrap().len()
        }
    }

    #[test]
    fn the_next_message_counts_the_suppressed_ones() {
        let every = Duration::from_secs(1);
        let rates = Rates::new(Rate { burst: 2, every }, NonZeroUsize::MIN);
        let begun = Instant::now();
        let taken = [0, 0, 0, 0, 1, 1].map(|after| rates.take_at((), begun + every * after));
        assert_eq!(taken, [Some(0), Some(0), None, None, Some(2), None]);
    }
}
