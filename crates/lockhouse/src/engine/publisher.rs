//! Publishes the list of this process's waiters, which other processes and people read.
//!
//! The list has the waiters that have waited for a second. A separate task writes it to the store,
//! with the first poll that is 5 s after the last write, so that a slow store delays no waiter.
//! Readers ignore a list that is older than 15 s.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use lockhouse_core::store::{SHOWN_FOR, Shown, ShownWaiter, Waiter as ListedWaiter};
use lockhouse_core::{Line, MAX_LINE, Place, ProcessId, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::driver::{Driver, State};
use super::waiting::{Waiter, WaitingLine};
use super::{Engine, retry};
use crate::Error;

/// A waiter that is served sooner is not listed.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

const SHOWN_EVERY: Duration = Duration::from_secs(5);

/// How many waiters of a process are listed for each semaphore.
const MOST: usize = 200;

/// The same on the last list of a process that stops.
const MOST_HANDED_OVER: usize = 2_000;

/// How long the write of the last list may take.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(1);
const LOOKED_AT_EVERY: Duration = Duration::from_millis(2);

/// A process whose entry and list were not written for so long does not count as waiting. Where few
/// processes wait, each writes its list every 5 s, and else every 13 s.
const ALIVE_FOR: Duration = Duration::from_secs(8);
const ALIVE_IN_A_CROWD_FOR: Duration = Duration::from_secs(30);
const FEW: usize = 16;

/// Of how many semaphores the lists are looked at together.
const PIECE: usize = 500;

/// How often the lists are deleted again, if that fails, after the last waiter has left.
const AT_MOST: u32 = 30;

/// The list that this process has published, and when the next is due.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    due: Option<Instant>,
    shown: BTreeSet<SemaphoreName>,
    is_busy: bool,
    /// Until when the lists stay as they are, since the process is about to stop.
    stay_until: Option<Instant>,
}

/// The lists to write, and the semaphores whose lists to delete.
#[derive(Debug)]
struct Publication {
    waiting: Vec<(SemaphoreName, Vec<ShownWaiter>)>,
    gone: Vec<SemaphoreName>,
}

impl Publisher {
    /// When the first list is due. Later lists are written after a poll, and so on its connection.
    pub(super) fn next(&self) -> Option<Instant> {
        let is_first = self.shown.is_empty();
        let due = self.due.filter(|_| is_first && !self.is_busy)?;
        Some(self.stay_until.map_or(due, |until| due.max(until)))
    }

    /// The lists to write now, if any. `waiting` is empty once no call waits.
    fn publication(&mut self, waiting: &WaitingLine, now: Instant) -> Option<Publication> {
        if self.is_busy || self.stay_until.is_some_and(|until| now < until) {
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
}

impl State {
    /// The lists to delete after a write during which the last waiter left. The poller, which would do
    /// so, has ended by then.
    fn after_last(&mut self) -> Option<Publication> {
        self.publisher.is_busy = false;
        if !self.waiting.is_empty() {
            return None;
        }
        self.publisher.publication(&self.waiting, Instant::now())
    }
}

/// The write under way. Dropping it lets another begin.
struct Writing {
    driver: Driver,
    is_on: bool,
}

impl Writing {
    /// Records whether there is more to write. If not, another write may have begun.
    fn goes_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.is_on {
            self.driver.state().publisher.is_busy = false;
        }
    }
}

impl Engine {
    /// Writes the list of waiters, if that is due.
    pub(super) fn publish_waiters(&self) {
        let (publication, process) = {
            let State {
                publisher, waiting, ..
            } = &mut *self.driver.state();
            let Some(publication) = publisher.publication(waiting, Instant::now()) else {
                return;
            };
            (publication, waiting.process)
        };
        // Spawned without holding the mutex: a runtime that ends drops the task here, and the drop
        // of `Writing` locks the mutex.
        let engine = self.clone();
        let mut writing = Writing {
            driver: self.driver.clone(),
            is_on: true,
        };
        tokio::spawn(async move {
            let mut next = Some(publication);
            for _ in 0..AT_MOST {
                let Some(publication) = next else {
                    break;
                };
                let is_written = engine.write(process, publication).await;
                if !is_written {
                    sleep(SHOWN_AFTER).await;
                }
                next = engine.driver.state().after_last();
                writing.goes_on(next.is_some());
            }
        });
    }

    /// Publishes all waiters for the last time, and leaves the lists when the waiters leave. So they
    /// keep their places if they ask again at another process within the time that a list is valid.
    pub(crate) async fn hand_over_waiters(&self) {
        let last = async {
            while self.driver.state().publisher.is_busy {
                sleep(LOOKED_AT_EVERY).await;
            }
            let (process, lists) = {
                let State {
                    publisher, waiting, ..
                } = &mut *self.driver.state();
                publisher.stay_until = Some(Instant::now() + SHOWN_FOR);
                (waiting.process, waiting.to_hand_over())
            };
            if lists.is_empty() {
                return;
            }
            let lists: Vec<_> = lists.into_iter().collect();
            if let Err(error) = self.store.show(process, &lists, &[]).await {
                tracing::warn!(%error, "the waiters lose their places, as the list of them could not be written");
            }
        };
        if timeout(HANDED_OVER_WITHIN, last).await.is_err() {
            tracing::warn!(
                "the waiters lose their places, as the store took too long to write the list of them"
            );
        }
    }

    /// Returns false if the store could not write it.
    async fn write(&self, process: ProcessId, publication: Publication) -> bool {
        let Publication { waiting, gone } = publication;
        let written = self.store.show(process, &waiting, &gone).await;
        if let Err(error) = &written {
            tracing::debug!(%error, "the list of waiters could not be written, trying again");
            self.driver.state().publisher.shown.extend(gone);
        }
        written.is_ok()
    }

    /// How many waiters of each of `semaphores` wait at other processes. A process that died is
    /// counted for a few seconds only.
    pub(super) async fn waiting_elsewhere(&self, semaphores: &[Semaphore]) -> Vec<u32> {
        let process = self.driver.state().waiting.process;
        let by_entries = |semaphore: &Semaphore| semaphore.line.waiting_elsewhere(process);
        let waited_for = semaphores.iter().filter(|it| by_entries(it) > 0);
        let names: Vec<_> = waited_for.map(|it| it.name.clone()).collect();
        let (mut now, mut written) = (None, HashMap::new());
        for names in names.chunks(PIECE) {
            let names = names.to_vec();
            let read = self.on_store(move |store| {
                let names = names.clone();
                async move { store.shown_at(&names).await }
            });
            let deadline = retry::deadline();
            let shown = match semaphores {
                [_] => retry::read(deadline, read).await,
                _ => self.listings.read(deadline, read).await,
            };
            match shown {
                Ok(shown) => {
                    now = Some(shown.now);
                    let lists = shown.lists.into_iter();
                    written.extend(lists.map(|(name, process, at)| ((name, process), at)));
                }
                Err(error) => {
                    tracing::debug!(%error, "waiters of processes that died may be counted");
                    now = None;
                    break;
                }
            }
        }
        let count = |semaphore: &Semaphore| {
            let (line, Some(now)) = (&semaphore.line, now) else {
                return by_entries(semaphore);
            };
            let alive_for = alive_for(line);
            let oldest = now.saturating_sub(alive_for).unwrap_or(now);
            line.waiting_elsewhere_at(process, now, alive_for, |process| {
                let at = written.get(&(semaphore.name.clone(), process));
                at.is_some_and(|at| *at >= oldest)
            })
        };
        semaphores.iter().map(count).collect()
    }

    /// The waiters for `name` of all processes, in order.
    pub(super) async fn waiters(&self, name: &SemaphoreName) -> Result<Vec<ListedWaiter>, Error> {
        let deadline = retry::deadline();
        let semaphore = self.existing(name, deadline).await?;
        let read = {
            let name = name.clone();
            self.on_store(move |store| {
                let name = name.clone();
                async move { store.shown(&name).await }
            })
        };
        let Shown { now, processes } = self.listings.read(deadline, read).await?;
        let state = self.driver.state();
        let own = state.waiting.on_list(name).into_iter();
        let mut waiters: Vec<_> = own.map(|waiter| waiter.at(now)).collect();
        let own_process = state.waiting.process;
        drop(state);
        for (process, theirs) in processes {
            if process != own_process && may_wait(&semaphore.line, process) {
                waiters.extend(theirs);
            }
        }
        waiters.sort_by_key(ListedWaiter::place_us);
        // A waiter that asked again at another process may still be on the first one's list.
        let mut seen = HashSet::new();
        waiters.retain(|waiter| seen.insert(waiter.external_id.clone()));
        Ok(waiters)
    }
}

/// For how long a process in `line` counts as alive after it has written its list or its entry.
fn alive_for(line: &Line) -> Duration {
    match line.entries().len() <= FEW {
        true => ALIVE_FOR,
        false => ALIVE_IN_A_CROWD_FOR,
    }
}

/// Whether `process` may still have waiters in `line`. Its list may be from before it left, and a
/// full line leaves some processes out.
fn may_wait(line: &Line, process: ProcessId) -> bool {
    line.entry(process).is_some() || line.entries().len() >= MAX_LINE
}

impl WaitingLine {
    /// The first waiters for `name` of this process, in order.
    fn on_list(&self, name: &SemaphoreName) -> Vec<ShownWaiter> {
        let waiters = self.waiters();
        let waiters = waiters.filter(|(_, waiter)| waiter.ask.permits().any(|(on, _)| on == name));
        let mut listed = self.listed(waiters, MOST, |on| on == name);
        listed.remove(name).unwrap_or_default()
    }

    /// The first waiters of each semaphore that have waited for long enough, in order. Nobody can
    /// list the waiters of a semaphore that does not exist.
    fn to_publish(&self) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let waiters = self.waiters();
        let waiters = waiters.filter(|(_, waiter)| waiter.ticket.waited() >= SHOWN_AFTER);
        self.listed(waiters, MOST, |name| !self.is_missing(name))
    }

    /// The same however long they have waited, and more of them.
    fn to_hand_over(&self) -> BTreeMap<SemaphoreName, Vec<ShownWaiter>> {
        let is_there = |name: &SemaphoreName| !self.is_missing(name);
        self.listed(self.waiters(), MOST_HANDED_OVER, is_there)
    }

    /// The first of the `waiters` on each semaphore that is `wanted`, at most so many. Several calls under one id are one
    /// waiter.
    fn listed<'a>(
        &'a self,
        waiters: impl Iterator<Item = (&'a Place, &'a Waiter)>,
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
                    waited: waiter.ticket.waited(),
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
    use std::sync::{Arc, mpsc};
    use std::thread;

    use lockhouse_stores::Memory;
    use tokio::runtime::Runtime;

    use super::*;

    /// A runtime that has ended drops a task at once that is spawned on it.
    #[test]
    fn showing_waiters_on_a_runtime_that_ends_does_not_deadlock() {
        let engine = Engine::new(Arc::new(Memory::new()));
        let name = SemaphoreName::parse("a").unwrap();
        engine.driver.state().publisher.shown.insert(name);
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let (shown, is_shown) = mpsc::channel();
        thread::spawn({
            let engine = engine.clone();
            move || {
                let _entered = handle.enter();
                engine.publish_waiters();
                shown.send(()).unwrap();
            }
        });
        let is_shown = is_shown.recv_timeout(Duration::from_secs(5));
        is_shown.expect("it waits for its own lock");
        assert!(
            !engine.driver.state().publisher.is_busy,
            "another may begin"
        );
    }
}
