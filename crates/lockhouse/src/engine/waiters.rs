//! The list of waiters: this process's is written to the store, and those of all processes are read for a caller.

use std::sync::Arc;

use lockhouse_core::store::{Shown, Waiter};
use lockhouse_core::{Line, MAX_LINE, ProcessId, SemaphoreName};
use tokio::time::Instant;

use super::driver::Driver;
use super::publisher::Publication;
use super::state::State;
use super::{Engine, retry};
use crate::Error;

/// The write under way. However it ends, another may begin.
struct Writing(Arc<Driver>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state().publisher.ended();
    }
}

impl Engine {
    /// Publishes the waiters of this process, if that is due.
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
        // Not under the lock: a runtime that ends drops the task here, and with it `Writing`, which locks.
        let (engine, writing) = (self.clone(), Writing(Arc::clone(&self.driver)));
        tokio::spawn(async move {
            let Publication { waiting, gone } = publication;
            if let Err(error) = engine.store.show(process, &waiting, &gone).await {
                tracing::debug!(%error, "the list of waiters could not be written, trying again");
                engine.driver.state().publisher.failed(gone);
            }
            drop(writing);
        });
    }

    /// The waiters for `name` at all processes, in order.
    pub(super) async fn waiters(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error> {
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
        waiters.sort_by_key(Waiter::place_us);
        Ok(waiters)
    }
}

/// Whether `process` has not left `line`: its list may be from before that. A full line leaves some out that wait.
fn may_wait(line: &Line, process: ProcessId) -> bool {
    line.entry(process).is_some() || line.entries().len() >= MAX_LINE
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use lockhouse_stores::Memory;
    use tokio::runtime::Runtime;

    use super::*;

    /// A runtime that ends drops a task at once that is spawned on it.
    #[test]
    fn showing_waiters_on_a_runtime_that_ends_does_not_deadlock() {
        let engine = Engine::new(Arc::new(Memory::new()));
        let name = SemaphoreName::parse("a").unwrap();
        engine.driver.state().publisher.failed(vec![name]);
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
            !engine.driver.state().publisher.is_busy(),
            "another may begin"
        );
    }
}
