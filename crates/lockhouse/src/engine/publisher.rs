//! Publishes the list of this process's waiters, which other processes and people read.
//!
//! The poller writes the waiters that have waited for a second to the store, at most every 5 s, in a task of its own: a slow
//! store delays no waiter. Readers ignore a list that is older than 15 s.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use lockhouse_core::store::ShownWaiter;
use lockhouse_core::{Place, SemaphoreName};
use tokio::time::Instant;

use super::waiting::{Waiter, WaitingLine};

/// A waiter that is served sooner is not shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

const SHOWN_EVERY: Duration = Duration::from_secs(5);

/// How many waiters of a process are shown for each semaphore.
const MOST: usize = 200;

/// What this process has published, and when it publishes next.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    due: Option<Instant>,
    shown: BTreeSet<SemaphoreName>,
    is_busy: bool,
}

/// What is to be written to the store.
#[derive(Debug)]
pub(super) struct Publication {
    /// The waiters of each semaphore.
    pub(super) waiting: Vec<(SemaphoreName, Vec<ShownWaiter>)>,
    /// Semaphores that nobody waits for any more.
    pub(super) gone: Vec<SemaphoreName>,
}

impl Publisher {
    /// When to look at [`publication`](Self::publication) next, while somebody waits.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_busy())
    }

    /// What of `waiting` is to be written now; `waiting` is empty once nobody waits any more. Nothing more is until that
    /// [has ended](Self::ended).
    pub(super) fn publication(
        &mut self,
        waiting: &WaitingLine,
        now: Instant,
    ) -> Option<Publication> {
        if self.is_busy() {
            return None;
        }
        let is_over = waiting.is_empty();
        let due = *self.due.get_or_insert(now + SHOWN_AFTER);
        if now < due && !is_over {
            return None;
        }
        let waiters = waiting.to_publish();
        let names = waiters.keys().cloned().collect();
        let before = std::mem::replace(&mut self.shown, names);
        let gone = before.difference(&self.shown).cloned().collect();
        let publication = Publication {
            waiting: waiters.into_iter().collect(),
            gone,
        };
        let is_empty = publication.waiting.is_empty() && publication.gone.is_empty();
        let pause = if is_empty { SHOWN_AFTER } else { SHOWN_EVERY };
        self.due = (!is_over).then(|| now + pause);
        self.is_busy = !is_empty;
        self.is_busy.then_some(publication)
    }

    /// Whether a write is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// A write failed: what was `gone` is to be written again.
    pub(super) fn failed(&mut self, gone: Vec<SemaphoreName>) {
        self.shown.extend(gone);
    }

    /// The write under way has ended, however that was.
    pub(super) fn ended(&mut self) {
        self.is_busy = false;
    }
}

impl WaitingLine {
    /// The first waiters for `name` here, in their order.
    pub(super) fn on_list(&self, name: &SemaphoreName) -> Vec<ShownWaiter> {
        let waiters = self.waiters();
        let waiters = waiters.filter(|(_, waiter)| waiter.ask.permits().any(|(on, _)| on == name));
        self.listed(waiters).remove(name).unwrap_or_default()
    }

    /// The first waiters for each semaphore that have waited for long enough, in their order.
    fn to_publish(&self) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let waiters = self.waiters();
        self.listed(waiters.filter(|(_, waiter)| waiter.ticket.waited() >= SHOWN_AFTER))
    }

    /// Several calls under one id are one waiter.
    fn listed<'a>(
        &'a self,
        waiters: impl Iterator<Item = (&'a Place, &'a Waiter)>,
    ) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let mut waiters: Vec<_> = waiters.collect();
        waiters.sort_unstable_by_key(|(place, _)| **place);
        let mut seen = HashSet::new();
        let mut listed: BTreeMap<SemaphoreName, Vec<ShownWaiter>> = BTreeMap::new();
        for (_, waiter) in waiters {
            let ask = &waiter.ask;
            if !seen.insert(&ask.external_id) {
                continue;
            }
            for (name, count) in ask.permits() {
                let first = listed.entry(name.clone()).or_default();
                if first.len() == MOST {
                    continue;
                }
                let shown = ShownWaiter {
                    external_id: ask.external_id.clone(),
                    owner: ask.owner.clone(),
                    count,
                    priority: ask.priority,
                    waited: waiter.ticket.waited(),
                    lacks: self.lacks(ask),
                };
                first.push(shown);
            }
        }
        listed
    }
}
