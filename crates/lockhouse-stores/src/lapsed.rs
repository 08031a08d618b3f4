//! How the SQL stores find what has lapsed on a semaphore, and read nothing of what lapsed on others.
//!
//! **Requests.** A live request is in a bucket of its index: [`LASTING`] if it has no time to live,
//! [`SEVERAL`] if it holds permits of several semaphores, else one of 256 that semaphores share by their
//! id. In its bucket it stands by the time at which it expires. A look reads the bucket of its semaphore
//! and [`SEVERAL`]; a sweep reads the 257 buckets that expire.
//!
//! **Sessions.** A look goes through the sessions that have lapsed, and asks the index of owners for
//! requests of each on the semaphore. Where many sessions have lapsed and were not swept, [`Looks`] keeps
//! that from being done with every refusal.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockhouse_core::Timestamp;

/// The bucket of live requests without a time to live.
pub(crate) const LASTING: u64 = 1;

/// The bucket of those that hold permits of several semaphores, or were granted by an older version.
pub(crate) const SEVERAL: u64 = 2;

/// The bucket of those that hold permits of only the semaphore of `id`.
pub(crate) fn bucket(id: u64) -> u64 {
    3 + id % 256
}

/// The buckets of all that expire.
pub(crate) fn buckets() -> impl Iterator<Item = u64> {
    SEVERAL..=bucket(255)
}

/// So many lapsed sessions are gone through with every look.
pub(crate) const FEW_SESSIONS: u32 = 64;

/// How long the sessions that a look went through may be left out by others. P10 allows a dead holder's
/// permits to come back a second late.
const LEFT_OUT_FOR: Duration = Duration::from_secs(1);

/// A heartbeat that is under way has its time already, and can be seen when it has committed. No call to
/// the store takes longer.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// So many looks are kept before those are forgotten that are over.
const KEPT: usize = 1_024;

/// When all lapsed sessions were last gone through for a semaphore, and none of their owners held any of
/// it. By the semaphore's id or name, in the store's time.
#[derive(Debug)]
pub(crate) struct Looks<K = u64>(Mutex<HashMap<K, Timestamp>>);

impl<K> Default for Looks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Looks<K> {
    /// A look at `now` may leave out sessions that lapsed by this time, as a look a moment ago found
    /// nothing of theirs on any of the semaphores of `ids`.
    pub(crate) fn left_out(&self, ids: &[K], now: Timestamp) -> Option<Timestamp> {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = ids.iter().map(|id| looks.get(id).copied());
        let looked = looked.map(|at| at.filter(|at| is_recent(*at, now)));
        let earliest = looked.min().flatten()?;
        earliest.checked_sub(LONGEST_CALL).ok()
    }

    /// A look at `now` left nothing out, and found nothing on the semaphores of `ids`.
    pub(crate) fn found_nothing(&self, ids: &[K], now: Timestamp) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() >= KEPT {
            looks.retain(|_, at| is_recent(*at, now));
        }
        looks.extend(ids.iter().map(|id| (id.clone(), now)));
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    let since = Duration::try_from(now.duration_since(at));
    since.is_ok_and(|since| since < LEFT_OUT_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    #[test]
    fn sessions_are_left_out_for_a_second_after_a_look_that_found_nothing() {
        let looks = Looks::<u64>::default();
        assert_eq!(looks.left_out(&[1], at(0)), None);
        looks.found_nothing(&[1], at(0));
        assert_eq!(looks.left_out(&[1], at(999)), Some(at(-10_000)));
        assert_eq!(looks.left_out(&[1], at(1_000)), None);
        assert_eq!(looks.left_out(&[1], at(-1)), None, "the clock was set back");
    }

    #[test]
    fn a_look_at_several_leaves_out_what_each_of_them_may() {
        let looks = Looks::<u64>::default();
        looks.found_nothing(&[1], at(0));
        assert_eq!(looks.left_out(&[1, 2], at(10)), None);
        looks.found_nothing(&[2], at(5));
        assert_eq!(looks.left_out(&[1, 2], at(10)), Some(at(-10_000)));
    }

    #[test]
    fn every_semaphore_has_a_bucket_that_a_sweep_reads() {
        let all: Vec<_> = buckets().collect();
        assert_eq!(all.len(), 257);
        for id in [1, 255, 256, 257, u64::MAX] {
            assert!(all.contains(&bucket(id)) && bucket(id) > SEVERAL);
        }
    }
}
