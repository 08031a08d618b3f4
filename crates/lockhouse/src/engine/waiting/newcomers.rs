//! Waiters that may have waited at another process before.
//!
//! A caller asks again at another process if its server has stopped or died, or if a load balancer sends its next call there.
//! Each process [publishes](super::super::publisher) its waiters. Once a new waiter has waited for 250 ms, the poller reads the
//! lists of the other processes. A waiter that is on one of them with the same ask moves to the place that it had there. The
//! lists are read at most every 500 ms, for all new waiters together, so a shorter wait costs nothing.
//!
//! Only the order depends on it (P11): the store decides every grant.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lockhouse_core::store::{Shown, Waiter};
use lockhouse_core::{Ask, Count, ExternalId, Owner, PlaceInLine, ProcessId, SemaphoreName};
use tokio::time::Instant;

/// How long a new waiter waits before it is looked for on the lists, and the least time between two reads of the lists.
const READ_AFTER: Duration = Duration::from_millis(250);
const READ_EVERY: Duration = Duration::from_millis(500);

/// The waiters that are to be looked for, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    pub(super) places: VecDeque<(PlaceInLine, Instant)>,
    /// When the lists were last read.
    pub(super) read: Option<Instant>,
}

impl Newcomers {
    pub(super) fn add(&mut self, place: PlaceInLine, now: Instant) {
        self.places.push_back((place, now + READ_AFTER));
    }

    /// When the lists are to be read next.
    pub(super) fn next(&self) -> Option<Instant> {
        let (_, due) = self.places.front()?;
        Some(self.read.map_or(*due, |read| (read + READ_EVERY).max(*due)))
    }
}

/// The waiters on the lists of other processes.
#[derive(Debug)]
pub(in crate::engine) struct WaitersElsewhere {
    process: ProcessId,
    waiters: HashMap<(SemaphoreName, ExternalId), Vec<Elsewhere>>,
}

/// A waiter on the list of another process.
#[derive(Debug)]
struct Elsewhere {
    count: Count,
    owner: Option<Owner>,
    /// How long it had waited when the list was read.
    waited: Duration,
    read: Instant,
}

impl WaitersElsewhere {
    /// No waiters as yet; `process` is this one.
    pub(in crate::engine) fn new(process: ProcessId) -> Self {
        Self {
            process,
            waiters: HashMap::new(),
        }
    }

    /// Adds the lists for `name`, which were read at `read`.
    pub(in crate::engine) fn add(&mut self, name: &SemaphoreName, shown: Shown, read: Instant) {
        let now = shown.now;
        let others = shown.processes.into_iter();
        let others = others.filter(|(process, _)| *process != self.process);
        for waiter in others.flat_map(|(_, waiters)| waiters) {
            let Waiter {
                external_id,
                owner,
                count,
                since,
                ..
            } = waiter;
            let waited = Duration::try_from(since.duration_until(now)).unwrap_or_default();
            let of_id = self.waiters.entry((name.clone(), external_id));
            of_id.or_default().push(Elsewhere {
                count,
                owner,
                waited,
                read,
            });
        }
    }

    /// How long the caller of `ask` has waited at other processes by the time `at`. `None` unless it is on the lists of all its
    /// semaphores, except those that are `missing` in the store, which have no list.
    pub(super) fn waited(
        &self,
        ask: &Ask,
        at: Instant,
        missing: impl Fn(&SemaphoreName) -> bool,
    ) -> Option<Duration> {
        let permits = ask.permits().filter(|(name, _)| !missing(name));
        let waited = permits.map(|(name, count)| {
            let key = (name.clone(), ask.external_id.clone());
            let same = self.waiters.get(&key)?.iter();
            let same = same.filter(|waiter| waiter.count == count && waiter.owner == ask.owner);
            same.map(|waiter| waiter.waited + at.saturating_duration_since(waiter.read))
                .max()
        });
        waited.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}
