//! Keys: semaphores of a template. A waiter that lacks a key stands only in the lines of the keys that it lacks (P11).

use lockhouse::{Ask, Count, SemaphoreName, Timestamp};

use super::ledger::Ledger;
use super::plan::KEY_PREFIX;

/// How long after a waiter lacks no key all servers surely know it. A server that waits for others polls after half a second,
/// and so does the waiter's own server.
const KNOWN_US: i64 = 1_600_000;

/// When a waiter lacked none of its keys.
#[derive(Debug, Default)]
pub(super) struct Clear {
    since: Option<i64>,
    before: Vec<(i64, i64)>,
}

impl Clear {
    pub(super) fn note(&mut self, is_clear: bool, now_us: i64) {
        match (self.since, is_clear) {
            (None, true) => self.since = Some(now_us),
            (Some(since), false) => {
                self.before.push((since, now_us));
                self.since = None;
            }
            _ => {}
        }
    }

    /// Whether the waiter had lacked no key for long at that time.
    pub(super) fn was_long(&self, at_us: i64) -> bool {
        let now = self.since.map(|since| (since, i64::MAX));
        let mut times = self.before.iter().copied().chain(now);
        times.any(|(from, to)| from + KNOWN_US <= at_us && at_us <= to)
    }
}

/// The permits of an ask on semaphores that a template may make.
pub(super) fn of(ask: &Ask) -> impl Iterator<Item = (&SemaphoreName, Count)> {
    ask.permits().filter(|(name, _)| is_one(name))
}

/// Whether a waiter reserves `name` whatever keys it lacks: it has no key, or `name` is its only key.
pub(super) fn always_reserves(ask: &Ask, name: &SemaphoreName) -> bool {
    of(ask).all(|(key, _)| key == name)
}

/// Whether the waiter of `ask` surely reserves nothing that `other` wants: it lacks a key, and `other` wants none of its keys.
pub(super) fn is_held_back(ask: &Ask, other: &Ask, ledger: &Ledger, now: Timestamp) -> bool {
    let wants = |name: &SemaphoreName| other.permits().any(|(its, _)| its == name);
    let lacks = |(key, count): (&SemaphoreName, Count)| {
        ledger.pools.is_keyed(key)
            && ledger.capacity(key) >= count.value()
            && ledger.room_without_lapsed(key, now) < count.value()
    };
    of(ask).all(|(key, _)| !wants(key)) && of(ask).any(lacks)
}

/// Whether a template may make `name`.
pub(super) fn is_one(name: &SemaphoreName) -> bool {
    name.as_str().starts_with(KEY_PREFIX)
}
