//! Lanes: commands that share semaphores go to the store together, in one transaction; those that
//! don't go side by side.
//!
//! Commands wait in one queue, in the order in which they came. A free lane takes the first one
//! that it may, and with it, in their order, those that share a semaphore with what it has taken.
//! A semaphore is in one lane at a time: what touches it waits here, without a connection, while
//! the store is busy with those before; and the longer that takes, the larger the next batch. No
//! command overtakes another that it shares a semaphore with.
//!
//! The last free lane takes whatever there is, so that many quiet semaphores share a commit too.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{Batch, Error as StoreError, Kind, Store};
use lockhouse_core::{Command, Footprint, Outcome, SemaphoreName};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::attempt;
use crate::Error;

/// How many transactions at once.
const LANES: usize = 8;

/// How many commands one transaction takes at most.
const BATCH: usize = 512;

/// How many commands may wait for a lane.
const QUEUE: usize = 50_000;

#[derive(Clone, Debug)]
pub(super) struct Lanes {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    /// Semaphores that are in a lane.
    busy: HashSet<SemaphoreName>,
    running: usize,
}

#[derive(Debug)]
struct Queued {
    command: Command,
    touches: Vec<SemaphoreName>,
    answer: oneshot::Sender<Result<Outcome, StoreError>>,
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
        {
            let mut queue = self.queue();
            if queue.waiting.len() >= QUEUE {
                return Err(Error::Overloaded);
            }
            queue.waiting.push_back(Queued {
                command,
                touches,
                answer,
            });
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
            if taken.is_empty() {
                return;
            }
            let lane = Lane {
                lanes: self.clone(),
                taken: semaphores(&taken),
            };
            tokio::spawn(lane.run(taken));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes the commands of one batch, for a lane that is then running. Empty if no lane is free
    /// or nothing may go.
    fn take(&mut self) -> Vec<Queued> {
        if self.running == LANES {
            return Vec::new();
        }
        let take_whatever = self.running + 1 == LANES;
        let mut taken = Vec::new();
        let mut ours: HashSet<SemaphoreName> = HashSet::new();
        // Semaphores of what is left waiting: nothing behind it may overtake it.
        let mut passed: HashSet<SemaphoreName> = HashSet::new();
        let mut left = Vec::new();
        while taken.len() < BATCH {
            let Some(queued) = self.waiting.pop_front() else {
                break;
            };
            if queued.answer.is_closed() {
                continue;
            }
            let mut touches = queued.touches.iter();
            let blocked = touches.any(|name| self.busy.contains(name) || passed.contains(name));
            let related = queued.touches.is_empty()
                || taken.is_empty()
                || take_whatever
                || queued.touches.iter().any(|name| ours.contains(name));
            if blocked || !related {
                passed.extend(queued.touches.iter().cloned());
                left.push(queued);
                continue;
            }
            ours.extend(queued.touches.iter().cloned());
            taken.push(queued);
        }
        for queued in left.into_iter().rev() {
            self.waiting.push_front(queued);
        }
        self.busy.extend(ours);
        self.running += usize::from(!taken.is_empty());
        taken
    }
}

/// A batch on its way. Dropping it, however that comes about, frees its semaphores.
struct Lane {
    lanes: Lanes,
    taken: HashSet<SemaphoreName>,
}

impl Lane {
    async fn run(self, taken: Vec<Queued>) {
        let (commands, answers): (Vec<_>, Vec<_>) = taken
            .into_iter()
            .map(|queued| (queued.command, queued.answer))
            .unzip();
        let decided = self.decide(commands, attempt::deadline()).await;
        for (answer, outcome) in answers.into_iter().zip(decided) {
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
        let footprint = Footprint::of(&commands, &self.taken);
        Batch {
            commands,
            footprint,
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        {
            let mut queue = self.lanes.queue();
            for name in &self.taken {
                queue.busy.remove(name);
            }
            queue.running -= 1;
        }
        // A lane is dropped outside a runtime only when the runtime ends, and all calls with it.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.lanes.fill_lanes();
        }
    }
}

fn semaphores(taken: &[Queued]) -> HashSet<SemaphoreName> {
    taken
        .iter()
        .flat_map(|queued| queued.touches.iter().cloned())
        .collect()
}

/// The same error for another of the callers that it befell.
fn shared(error: &Arc<StoreError>) -> StoreError {
    StoreError::new(error.kind(), "the batch failed").caused_by(Arc::clone(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(touches: &[&str]) -> Queue {
        let mut queue = Queue::default();
        for names in touches {
            queue.waiting.push_back(queued(names));
        }
        queue
    }

    /// The receiving end is leaked, so that the caller counts as there.
    fn queued(names: &str) -> Queued {
        let touches: Vec<_> = names
            .chars()
            .map(|c| SemaphoreName::parse(c.to_string()).unwrap())
            .collect();
        let (answer, answered) = oneshot::channel();
        std::mem::forget(answered);
        let command = Command::Delete {
            name: SemaphoreName::parse("x").unwrap(),
        };
        Queued {
            command,
            touches,
            answer,
        }
    }

    fn take(queue: &mut Queue) -> Vec<String> {
        let taken = queue.take();
        taken
            .iter()
            .map(|q| q.touches.iter().map(|n| n.as_str()).collect())
            .collect()
    }

    #[test]
    fn those_that_share_a_semaphore_go_together_and_others_side_by_side() {
        let mut queue = queue(&["a", "b", "a", "ac", "c", "b"]);
        assert_eq!(take(&mut queue), ["a", "a", "ac", "c"]);
        assert_eq!(take(&mut queue), ["b", "b"]);
        assert!(take(&mut queue).is_empty());
    }

    #[test]
    fn nobody_overtakes_one_who_waits_for_a_busy_semaphore() {
        let mut queue = queue(&["a"]);
        assert_eq!(take(&mut queue), ["a"]);
        for names in ["ab", "b", "c"] {
            queue.waiting.push_back(queued(names));
        }
        assert_eq!(
            take(&mut queue),
            ["c"],
            "b waits behind ab, which waits for a"
        );
        queue.busy.clear();
        assert_eq!(take(&mut queue), ["ab", "b"]);
    }

    #[test]
    fn the_last_lane_takes_whatever_there_is() {
        let mut queue = queue(&["a", "b", "c"]);
        queue.running = LANES - 1;
        assert_eq!(take(&mut queue), ["a", "b", "c"]);
    }

    #[test]
    fn who_went_away_is_not_taken() {
        let mut queue = queue(&["a"]);
        let (answer, _) = oneshot::channel();
        queue.waiting.push_front(Queued {
            answer,
            ..queued("a")
        });
        assert_eq!(take(&mut queue), ["a"]);
    }

    #[test]
    fn a_batch_has_a_most() {
        let mut queue = queue(&vec!["a"; BATCH + 3]);
        assert_eq!(take(&mut queue).len(), BATCH);
        assert_eq!(queue.waiting.len(), 3);
    }
}
