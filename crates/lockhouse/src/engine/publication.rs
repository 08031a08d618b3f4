//! The lists of waiters that this process publishes, and when. The [publisher](super::publisher) writes them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use lockhouse_core::store::{SHOWN_FOR, ShownWaiter};
use lockhouse_core::{PlaceInLine, SemaphoreName};
use tokio::time::Instant;

use super::waiting::{WaitingCall, WaitingLine};

/// A waiter that is served sooner is not listed.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(1);

const SHOWN_EVERY: Duration = Duration::from_secs(5);

/// How many times the publisher tries to delete the lists after the last waiter has left.
const MOST_DELETIONS: u32 = 30;

/// How many waiters of a process are listed for each semaphore.
const MOST: usize = 200;

/// How many waiters the last lists of a process that stops have for each semaphore.
const MOST_HANDED_OVER: usize = 2_000;

/// The lists that this process has published, and when the next ones are due.
#[derive(Debug, Default)]
pub(super) struct PublishedLists {
    due: Option<Instant>,
    pub(super) shown: BTreeSet<SemaphoreName>,
    /// The lists to write next.
    to_write: Option<Publication>,
    /// Whether lists wait to be written, or are being written.
    is_busy: bool,
    /// How often the lists were deleted since the last waiter has left.
    deletions: u32,
    /// Until when the lists stay as they are, since the process is about to stop.
    stay_until: Option<Instant>,
}

/// The lists to write, and the semaphores whose lists to delete.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) waiting: Vec<(SemaphoreName, Vec<ShownWaiter>)>,
    pub(super) gone: Vec<SemaphoreName>,
}

impl PublishedLists {
    /// When the first list is due. Later lists are written after a poll, and so on its connection.
    pub(super) fn next(&self) -> Option<Instant> {
        let is_first = self.shown.is_empty();
        let due = self.due.filter(|_| is_first && !self.is_busy)?;
        Some(self.stay_until.map_or(due, |until| due.max(until)))
    }

    /// All waiters, for the last lists of a process that stops. From then on the lists do not change for [`SHOWN_FOR`], also
    /// when the waiters leave. Returns `None` while a write is due or under way.
    pub(super) fn last_lists(
        &mut self,
        waiting: &WaitingLine,
        now: Instant,
    ) -> Option<Vec<(SemaphoreName, Vec<ShownWaiter>)>> {
        if self.is_busy {
            return None;
        }
        self.stay_until = Some(now + SHOWN_FOR);
        Some(waiting.to_hand_over().into_iter().collect())
    }

    /// Has the lists written, if they are due. If `waiting` is empty, the lists are deleted.
    pub(super) fn publish(&mut self, waiting: &WaitingLine, now: Instant) {
        if self.is_busy || self.stay_until.is_some_and(|until| now < until) {
            return;
        }
        let is_over = waiting.is_empty();
        self.deletions = if is_over { self.deletions + 1 } else { 0 };
        let due = *self.due.get_or_insert(now + SHOWN_AFTER);
        if now < due && !is_over || self.deletions > MOST_DELETIONS {
            return;
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
        self.to_write = self.is_busy.then_some(publication);
    }

    /// The lists to write next. The write lasts until [`end_write`](Self::end_write).
    pub(super) fn next_to_write(&mut self) -> Option<Publication> {
        self.to_write.take()
    }

    /// Records that the write of `lists` has ended. Lists that could not be deleted are deleted later.
    pub(super) fn end_write(&mut self, lists: Publication, is_written: bool) {
        self.is_busy = false;
        if !is_written {
            self.shown.extend(lists.gone);
        }
    }
}

impl WaitingLine {
    /// The first waiters for `name` of this process, in order.
    pub(super) fn on_list(&self, name: &SemaphoreName) -> Vec<ShownWaiter> {
        let waiters = self.waiters();
        let waiters = waiters.filter(|(_, waiter)| waiter.ask.permits().any(|(on, _)| on == name));
        let mut listed = self.listed(waiters, MOST, |on| on == name);
        listed.remove(name).unwrap_or_default()
    }

    /// The first waiters of each semaphore that have waited for long enough, in order. Nobody can
    /// list the waiters of a semaphore that does not exist.
    fn to_publish(&self) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let waiters = self.waiters();
        let waiters = waiters.filter(|(_, waiter)| waiter.ticket.waited(self.now()) >= SHOWN_AFTER);
        self.listed(waiters, MOST, |name| !self.is_missing(name))
    }

    /// All waiters of each semaphore, however long they have waited, in order and up to [`MOST_HANDED_OVER`].
    fn to_hand_over(&self) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let is_there = |name: &SemaphoreName| !self.is_missing(name);
        self.listed(self.waiters(), MOST_HANDED_OVER, is_there)
    }

    /// For each semaphore that is `wanted`: the first of its `waiters`, at most `most`. Several calls under one id are
    /// one waiter.
    fn listed<'a>(
        &'a self,
        waiters: impl Iterator<Item = (&'a PlaceInLine, &'a WaitingCall)>,
        most: usize,
        wanted: impl Fn(&SemaphoreName) -> bool,
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
            let lacks = self.lacks(ask);
            for (name, count) in ask.permits().filter(|(name, _)| wanted(name)) {
                let first = listed.entry(name.clone()).or_default();
                if first.len() == most {
                    continue;
                }
                let shown = ShownWaiter {
                    external_id: ask.external_id.clone(),
                    owner: ask.owner.clone(),
                    count,
                    priority: ask.priority,
                    waited: waiter.ticket.waited(self.now()),
                    lacks: lacks.clone(),
                };
                first.push(shown);
            }
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::ProcessId;

    use super::*;

    #[test]
    fn a_deletion_that_fails_is_repeated_for_a_while() {
        let now = Instant::now();
        let waiting = WaitingLine::new(ProcessId::new(1), now);
        let name = SemaphoreName::parse("a").unwrap();
        let mut published = PublishedLists::default();
        published.shown.insert(name.clone());
        let mut tries = 0;
        published.publish(&waiting, now);
        while let Some(lists) = published.next_to_write() {
            assert_eq!(lists.gone, std::slice::from_ref(&name));
            assert!(published.is_busy);
            published.end_write(lists, false);
            published.publish(&waiting, now);
            tries += 1;
        }
        assert_eq!(tries, MOST_DELETIONS);
        assert!(!published.is_busy);
    }
}
