//! Semaphores that no call of this process waits for, while the line in the store may still have
//! this process's entry.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::time::Instant;

/// How often the removal of an entry is repeated until it is saved, and how many times. A row may
/// be locked for 10 s, and a store unreachable for longer.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: u32 = 30;

/// The semaphores whose entries are to be removed.
#[derive(Debug, Default)]
pub(super) struct Deregistrations(BTreeMap<SemaphoreName, Deregistration>);

#[derive(Clone, Copy, Debug)]
struct Deregistration {
    due: Instant,
    sent: u32,
}

impl Deregistrations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, name: &SemaphoreName, due: Instant) {
        let new = Deregistration { due, sent: 0 };
        self.0.entry(name.clone()).or_insert(new);
    }

    /// Keeps the entry after all, since another call waits. Returns whether its removal was still
    /// pending.
    pub(super) fn forget(&mut self, name: &SemaphoreName) -> bool {
        self.0.remove(name).is_some()
    }

    /// The entries to remove now. After 30 tries the other processes have passed over the entry.
    pub(super) fn send(&mut self, now: Instant) -> Vec<SemaphoreName> {
        self.0
            .retain(|_, deregistration| deregistration.sent < AT_MOST);
        let due = self
            .0
            .iter_mut()
            .filter(|(_, deregistration)| deregistration.due <= now);
        due.map(|(name, deregistration)| {
            deregistration.due = now + AGAIN;
            deregistration.sent += 1;
            name.clone()
        })
        .collect()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0
            .values()
            .map(|deregistration| deregistration.due)
            .min()
    }
}
