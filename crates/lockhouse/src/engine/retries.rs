//! How often calls to the store were tried again, by the error that was the reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockhouse_core::store::Kind;

/// The errors after which a call is tried again.
const KINDS: [Kind; 5] = [
    Kind::Conflict,
    Kind::Locked,
    Kind::Unavailable,
    Kind::Crowded,
    Kind::Unknown,
];

#[derive(Debug, Default)]
pub(crate) struct Retries([AtomicU64; KINDS.len()]);

impl Retries {
    pub(super) fn count(&self, kind: Kind) {
        let counters = KINDS.iter().zip(&self.0);
        for (_, counter) in counters.filter(|(counted, _)| **counted == kind) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Each kind with its number of retries.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        let numbers = self.0.iter().map(|counter| counter.load(Relaxed));
        KINDS.into_iter().zip(numbers)
    }
}
