//! Lanes: commands that share semaphores go to the store together, in one transaction; those that
//! don't go side by side.
//!
//! Commands wait in a [`queue`](super::queue), in the order in which they came. A free lane takes
//! the first one that may go, and with it, in their order, those that share a semaphore with what
//! it has taken. A semaphore is in one lane at a time: what touches it waits here, without a connection, while
//! the store is busy with those before; and the longer that takes, the larger the next batch. No
//! command overtakes another that it shares a semaphore with.
//!
//! The last free lane takes whatever there is, so that many quiet semaphores share a commit too.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind, Store};
use lockhouse_core::{Command, EndReason, Footprint, Outcome, Refusal, Reply, SemaphoreName};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::queue::{Queue, Queued, Taken};
use super::{Shared, attempt};
use crate::Error;

#[derive(Clone, Debug)]
pub(super) struct Lanes {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    queue: Arc<Mutex<Queue>>,
}

impl Lanes {
    pub(super) fn new(store: Arc<dyn Store>, shared: Arc<Shared>) -> Self {
        Self {
            store,
            shared,
            queue: Arc::default(),
        }
    }

    /// Has `command`, which touches the semaphores `touches` as far as is known, decided before
    /// `deadline`.
    ///
    /// Dropping the future takes the command out of the queue; one that is in a lane goes on.
    pub(super) async fn submit(
        &self,
        command: Command,
        touches: Vec<SemaphoreName>,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        let (answer, answered) = oneshot::channel();
        let queued = Queued {
            command,
            touches,
            answer,
        };
        if !self.queue().push(queued) {
            return Err(Error::Overloaded);
        }
        self.fill_lanes();
        match timeout_at(deadline, answered).await {
            Ok(Ok(decided)) => Ok(decided?),
            Ok(Err(_)) => Err(Error::Internal("a lane ended without an answer".into())),
            Err(_) => {
                Err(StoreError::new(Kind::Unknown, "the store did not answer in time").into())
            }
        }
    }

    fn fill_lanes(&self) {
        loop {
            // The queue is let go of before the spawn: a runtime that ends drops the lane there.
            let taken = self.queue().take();
            let Some(Taken {
                commands,
                semaphores,
            }) = taken
            else {
                return;
            };
            let lane = Lane {
                lanes: self.clone(),
                semaphores,
            };
            tokio::spawn(lane.run(commands));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch on its way. Dropping it, however that comes about, frees its semaphores.
struct Lane {
    lanes: Lanes,
    semaphores: HashSet<SemaphoreName>,
}

impl Lane {
    async fn run(self, taken: Vec<Queued>) {
        let (commands, answers): (Vec<_>, Vec<_>) = taken
            .into_iter()
            .map(|queued| (queued.command, queued.answer))
            .unzip();
        let begun = Instant::now();
        let decided = self.decide(commands, attempt::deadline()).await;
        let took = begun.elapsed();
        for (answer, outcome) in answers.into_iter().zip(decided) {
            let outcome = outcome.map(|outcome| still_held(outcome, took));
            if let Ok(outcome) = &outcome {
                self.lanes.shared.learn(outcome);
            }
            // Whoever went away does not mind.
            let _ = answer.send(outcome);
        }
    }

    /// One result a command. If the store turns a batch down, each command is tried on its own, so
    /// that only the one to blame fails.
    async fn decide(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Vec<Result<Outcome, StoreError>> {
        let many = commands.len();
        let batch = self.batch(commands);
        match attempt::transact(&*self.lanes.store, &batch, deadline).await {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) if error.kind() == Kind::Rejected && many > 1 => {
                tracing::warn!(%error, many, "a batch was turned down, trying one by one");
                let mut results = Vec::with_capacity(many);
                for command in batch.commands {
                    let alone = self.batch(vec![command]);
                    let outcome = attempt::transact(&*self.lanes.store, &alone, deadline).await;
                    results.push(outcome.map(|mut outcomes| outcomes.remove(0)));
                }
                results
            }
            Err(error) => {
                let error = Arc::new(error);
                (0..many).map(|_| Err(shared(&error))).collect()
            }
        }
    }

    fn batch(&self, commands: Vec<Command>) -> Batch {
        let footprint = Footprint::of(&commands, &self.semaphores);
        Batch {
            commands,
            footprint,
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lanes.queue().end(&self.semaphores);
        // A lane is dropped outside a runtime only when the runtime ends, and all calls with it.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.lanes.fill_lanes();
        }
    }
}

/// A grant that may have expired before its answer is not a grant any more (P8).
fn still_held(outcome: Outcome, took: Duration) -> Outcome {
    match outcome {
        Ok(Reply::Granted { request, lasts, .. }) if lasts.is_some_and(|lasts| lasts <= took) => {
            Err(Refusal::RequestEnded {
                external_id: request.external_id,
                reason: EndReason::Expired,
            })
        }
        outcome => outcome,
    }
}

/// The same error for another of the callers that it befell.
fn shared(error: &Arc<StoreError>) -> StoreError {
    StoreError::new(error.kind(), "the batch failed").caused_by(Arc::clone(error))
}
