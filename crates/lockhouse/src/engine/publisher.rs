//! Publishes the list of this process's waiters, which other processes and people read.
//!
//! The list has the waiters that have waited for a second. The first poll that comes 5 s after the last write starts a task,
//! which writes the list. So a slow store delays no waiter. Readers ignore a list that is older than 15 s.

use std::collections::HashSet;
use std::time::Duration;

use lockhouse_core::store::{Shown, Waiter};
use lockhouse_core::{Line, MAX_LINE, ProcessId, SemaphoreName};
use tokio::time::{sleep, timeout};

use super::publication::{Publication, SHOWN_AFTER};
use super::{Engine, retry};
use crate::Error;

/// How long the write of the last list may take.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(1);
const LOOKED_AT_EVERY: Duration = Duration::from_millis(2);

/// The write under way. Dropping it lets another begin.
pub(super) struct Publisher {
    engine: Engine,
    /// The lists, until their write has ended.
    lists: Option<Publication>,
}

impl Publisher {
    pub(super) fn new(engine: Engine, lists: Publication) -> Self {
        Self {
            engine,
            lists: Some(lists),
        }
    }

    /// Writes the lists.
    pub(super) async fn run(mut self) {
        let is_written = self.write().await;
        if !is_written {
            sleep(SHOWN_AFTER).await;
        }
        self.end(is_written);
        self.engine.perform();
    }

    async fn write(&self) -> bool {
        let Some(Publication { waiting, gone }) = &self.lists else {
            return true;
        };
        let process = self.engine.state().waiting.process;
        let written = self.engine.store.show(process, waiting, gone).await;
        if let Err(error) = &written {
            tracing::debug!(%error, "the list of waiters could not be written, trying again");
        }
        written.is_ok()
    }

    fn end(&mut self, is_written: bool) {
        if let Some(lists) = self.lists.take() {
            self.engine.state().end_write(lists, is_written);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl Engine {
    /// Publishes all waiters for the last time, and leaves the lists when the waiters leave. So they
    /// keep their places if they ask again at another process within the time that a list is valid.
    pub(crate) async fn hand_over_waiters(&self) {
        let last = async {
            let lists = loop {
                let lists = self.state().last_lists();
                match lists {
                    Some(lists) => break lists,
                    None => sleep(LOOKED_AT_EVERY).await,
                }
            };
            if lists.is_empty() {
                return;
            }
            let process = self.state().waiting.process;
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

    /// The waiters for `name` of all processes, in order.
    pub(super) async fn waiters(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error> {
        let deadline = retry::deadline();
        let semaphore = self.existing(name, deadline).await?;
        let Shown { now, processes } = self.shared.listings.shown(name, deadline).await?;
        let state = self.state();
        let own = state.waiting.on_list(name).into_iter();
        let mut waiters: Vec<_> = own.map(|waiter| waiter.at(now)).collect();
        let own_process = state.waiting.process;
        drop(state);
        for (process, theirs) in processes {
            if process != own_process && may_wait(&semaphore.line, process) {
                waiters.extend(theirs);
            }
        }
        waiters.sort_by_key(Waiter::place_us);
        // A waiter that asked again at another process may still be on the first one's list.
        let mut seen = HashSet::new();
        waiters.retain(|waiter| seen.insert(waiter.external_id.clone()));
        Ok(waiters)
    }
}

/// Whether `process` may still have waiters in `line`. Its list may be from before it left, and a
/// full line leaves some processes out.
fn may_wait(line: &Line, process: ProcessId) -> bool {
    line.entry(process).is_some() || line.entries().len() >= MAX_LINE
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use lockhouse_stores::Memory;
    use tokio::runtime::Runtime;

    use super::super::state::EngineState;
    use super::*;

    /// A runtime that has ended drops a task at once that is spawned on it. The lists are then deleted on another runtime.
    #[test]
    fn a_write_on_a_runtime_that_ends_does_not_deadlock_and_is_repeated() {
        let engine = Engine::new(Arc::new(Memory::new()));
        let name = SemaphoreName::parse("a").unwrap();
        engine.state().published.shown.insert(name.clone());
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let (shown, is_shown) = mpsc::channel();
        thread::spawn({
            let engine = engine.clone();
            move || {
                let _entered = handle.enter();
                engine.record(EngineState::publish_waiters);
                shown.send(()).unwrap();
            }
        });
        let is_shown = is_shown.recv_timeout(Duration::from_secs(5));
        is_shown.expect("it waits for its own lock");
        let lists = engine.state().published.next_to_write().unwrap();
        assert_eq!(lists.gone, [name]);
    }
}
