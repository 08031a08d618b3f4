//! How a store finds the lapsed requests of a semaphore without reading those of others.
//!
//! **Requests.** On SQL stores the index puts each live request into a bucket: [`LASTING`] if it has no TTL,
//! [`SEVERAL`] if it holds permits of several semaphores, else one of 256 that semaphores share by
//! their id. A bucket is sorted by the time of expiry. A look for one semaphore reads its bucket
//! and [`SEVERAL`]; a sweep reads the 257 buckets that expire.
//!
//! **Sessions.** On Redis too, a look goes through the lapsed sessions, and asks the index of owners for requests
//! of each on the semaphore. If there are many lapsed sessions that no sweep has ended yet, that is too much for
//! every refusal. [`Looks`] lets later looks skip the sessions that an earlier look went through.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockhouse_core::Timestamp;

/// The bucket of live requests without a TTL.
pub(crate) const LASTING: u64 = 1;

/// The bucket of requests that hold permits of several semaphores, or were granted by an older
/// version.
pub(crate) const SEVERAL: u64 = 2;

/// The bucket of requests that hold permits of only the semaphore with this `id`.
pub(crate) fn bucket(id: u64) -> u64 {
    3 + id % 256
}

/// The buckets of all requests that expire.
pub(crate) fn buckets() -> impl Iterator<Item = u64> {
    SEVERAL..=bucket(255)
}

/// Up to this many lapsed sessions, every look goes through all of them.
pub(crate) const FEW_SESSIONS: u32 = 64;

/// How long other looks may skip the sessions that one look went through. P10 allows a dead
/// holder's permits to return a second late.
const LEFT_OUT_FOR: Duration = Duration::from_secs(1);

/// A heartbeat under way has read the clock already, but becomes visible only with its commit. No
/// call to the store takes longer than this.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// How many looks are kept before expired ones are removed.
const KEPT: usize = 1_024;

/// For each semaphore, by its id or name: when a look last went through all lapsed sessions and
/// found that none of their owners held permits of it, in the store's time.
#[derive(Debug)]
pub(crate) struct Looks<K = u64>(Mutex<HashMap<K, Timestamp>>);

impl<K> Default for Looks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Looks<K> {
    /// A look at `now` may skip sessions that lapsed by the returned time, since a recent look
    /// found that their owners hold none of the semaphores `ids`.
    pub(crate) fn left_out(&self, ids: &[K], now: Timestamp) -> Option<Timestamp> {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = ids.iter().map(|id| looks.get(id).copied());
        let looked = looked.map(|at| at.filter(|at| is_recent(*at, now)));
        let earliest = looked.min().flatten()?;
        earliest.checked_sub(LONGEST_CALL).ok()
    }

    /// Records that a look at `now` skipped no session, and found no request on the semaphores
    /// `ids`.
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
