//! Commands that wait for a lane.
//!
//! Each waits in one line for every semaphore that it touches, in the order in which it came. It
//! may go when it is first in all its lines and none of its semaphores is in a lane: so none
//! overtakes another that it shares a semaphore with, and finding who may go takes a look at the
//! heads of lines only, however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use lockhouse_core::{Command, Outcome, SemaphoreName, store};
use tokio::sync::oneshot;

/// How many transactions at once.
const LANES: usize = 8;

/// How many commands one transaction takes at most.
const BATCH: usize = 512;

/// How many commands may wait for a lane.
const MOST: usize = 50_000;

/// A command and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) command: Command,
    pub(super) touches: Vec<SemaphoreName>,
    pub(super) answer: oneshot::Sender<Result<Outcome, store::Error>>,
}

/// A command's place in the order in which they came.
type Ticket = u64;

#[derive(Debug, Default)]
pub(super) struct Queue {
    next: Ticket,
    waiting: BTreeMap<Ticket, Queued>,
    lines: HashMap<SemaphoreName, VecDeque<Ticket>>,
    /// Who may go now.
    ready: BTreeSet<Ticket>,
    /// Semaphores that are in a lane.
    busy: HashSet<SemaphoreName>,
    lanes: usize,
}

/// The commands of one lane, and the semaphores that they keep busy.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) commands: Vec<Queued>,
    pub(super) semaphores: HashSet<SemaphoreName>,
}

impl Queue {
    /// Puts `queued` at the end of its lines; false if too many wait already.
    pub(super) fn push(&mut self, queued: Queued) -> bool {
        if self.waiting.len() >= MOST {
            return false;
        }
        let ticket = self.next;
        self.next += 1;
        for name in &queued.touches {
            self.lines
                .entry(name.clone())
                .or_default()
                .push_back(ticket);
        }
        self.waiting.insert(ticket, queued);
        self.look_at(ticket);
        true
    }

    /// What goes together in the next lane: those that share semaphores, from the first who may
    /// go on. The last free lane takes whatever may go. None if no lane is free, or nobody may go.
    pub(super) fn take(&mut self) -> Option<Taken> {
        if self.lanes == LANES {
            return None;
        }
        let is_last = self.lanes + 1 == LANES;
        let mut taken = Taken::default();
        let mut candidates = BTreeSet::new();
        while taken.commands.len() < BATCH {
            let other = || (taken.commands.is_empty() || is_last).then(|| self.ready.first());
            let Some(ticket) = candidates
                .pop_first()
                .or_else(|| other().flatten().copied())
            else {
                break;
            };
            if !self.is_first_in_its_lines(ticket) || !self.is_free(ticket, &taken) {
                self.ready.remove(&ticket);
                continue;
            }
            let Some(queued) = self.leave(ticket) else {
                continue;
            };
            let heads = queued.touches.iter().filter_map(|name| self.head(name));
            candidates.extend(heads);
            // Whoever went away is not taken, but those behind may go.
            if !queued.answer.is_closed() {
                taken.semaphores.extend(queued.touches.iter().cloned());
                taken.commands.push(queued);
            }
        }
        self.set_off(taken)
    }

    /// A lane has come to its end, and frees `semaphores`.
    pub(super) fn end(&mut self, semaphores: &HashSet<SemaphoreName>) {
        self.lanes -= 1;
        for name in semaphores {
            self.busy.remove(name);
        }
        for ticket in semaphores
            .iter()
            .filter_map(|name| self.head(name))
            .collect::<Vec<_>>()
        {
            self.look_at(ticket);
        }
    }

    fn set_off(&mut self, taken: Taken) -> Option<Taken> {
        for name in &taken.semaphores {
            if let Some(ticket) = self.head(name) {
                self.ready.remove(&ticket);
            }
        }
        if taken.commands.is_empty() {
            return None;
        }
        self.busy.extend(taken.semaphores.iter().cloned());
        self.lanes += 1;
        Some(taken)
    }

    /// Notes `ticket` as ready if it may go.
    fn look_at(&mut self, ticket: Ticket) {
        if self.is_first_in_its_lines(ticket) && self.is_free(ticket, &Taken::default()) {
            self.ready.insert(ticket);
        }
    }

    fn is_first_in_its_lines(&self, ticket: Ticket) -> bool {
        let mut touches = self.touches(ticket);
        touches.all(|name| self.head(name) == Some(ticket))
    }

    /// Whether no other lane than that of `taken` has its semaphores.
    fn is_free(&self, ticket: Ticket, taken: &Taken) -> bool {
        let mut touches = self.touches(ticket);
        touches.all(|name| !self.busy.contains(name) || taken.semaphores.contains(name))
    }

    fn touches(&self, ticket: Ticket) -> impl Iterator<Item = &SemaphoreName> {
        let queued = self.waiting.get(&ticket);
        queued.into_iter().flat_map(|queued| &queued.touches)
    }

    fn head(&self, name: &SemaphoreName) -> Option<Ticket> {
        self.lines.get(name)?.front().copied()
    }

    /// Takes the first of its lines out of all of them.
    fn leave(&mut self, ticket: Ticket) -> Option<Queued> {
        self.ready.remove(&ticket);
        let queued = self.waiting.remove(&ticket)?;
        for name in &queued.touches {
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            line.pop_front();
            if line.is_empty() {
                self.lines.remove(name);
            }
        }
        Some(queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(touches: &[&str]) -> Queue {
        let mut queue = Queue::default();
        push(&mut queue, touches);
        queue
    }

    fn push(queue: &mut Queue, touches: &[&str]) {
        for names in touches {
            assert!(queue.push(queued(names)));
        }
    }

    /// The receiving end is leaked, so that the caller counts as there.
    fn queued(names: &str) -> Queued {
        let touches = names
            .chars()
            .map(|c| SemaphoreName::parse(c.to_string()).unwrap());
        let (answer, answered) = oneshot::channel();
        std::mem::forget(answered);
        Queued {
            command: Command::Delete {
                name: SemaphoreName::parse("x").unwrap(),
            },
            touches: touches.collect(),
            answer,
        }
    }

    fn take(queue: &mut Queue) -> (Vec<String>, HashSet<SemaphoreName>) {
        let taken = queue.take().unwrap_or_default();
        let names = taken.commands.iter();
        let names = names.map(|q| q.touches.iter().map(|name| name.as_str()).collect());
        (names.collect(), taken.semaphores)
    }

    #[test]
    fn those_that_share_a_semaphore_go_together_and_others_side_by_side() {
        let mut queue = queue(&["a", "b", "a", "ac", "c", "b"]);
        assert_eq!(take(&mut queue).0, ["a", "a", "ac", "c"]);
        assert_eq!(take(&mut queue).0, ["b", "b"]);
        assert!(queue.take().is_none());
    }

    #[test]
    fn nobody_overtakes_one_who_waits_for_a_busy_semaphore() {
        let mut queue = queue(&["a"]);
        let (first, a) = take(&mut queue);
        assert_eq!(first, ["a"]);
        push(&mut queue, &["ab", "b", "c"]);
        assert_eq!(
            take(&mut queue).0,
            ["c"],
            "b waits behind ab, which waits for a"
        );
        assert!(queue.take().is_none());
        queue.end(&a);
        assert_eq!(take(&mut queue).0, ["ab", "b"]);
    }

    #[test]
    fn nobody_overtakes_across_lanes() {
        let mut queue = queue(&["a", "bc", "ab", "c", "a"]);
        assert_eq!(
            take(&mut queue).0,
            ["a"],
            "ab waits behind bc, and the last a behind ab"
        );
        let (second, bc) = take(&mut queue);
        assert_eq!(second, ["bc", "c"]);
        queue.end(&bc);
        assert!(queue.take().is_none(), "a is busy still");
    }

    #[test]
    fn the_last_lane_takes_whatever_there_is() {
        let mut queue = queue(&["a", "b", "c", "b"]);
        queue.lanes = LANES - 1;
        assert_eq!(take(&mut queue).0, ["a", "b", "b", "c"]);
        push(&mut queue, &["d"]);
        assert!(queue.take().is_none());
    }

    #[test]
    fn what_touches_nothing_may_always_go() {
        let mut queue = queue(&["", "a"]);
        assert_eq!(take(&mut queue).0, [""]);
        assert_eq!(take(&mut queue).0, ["a"]);
    }

    #[test]
    fn who_went_away_is_passed_over() {
        let mut queue = queue(&[]);
        let (answer, _) = oneshot::channel();
        queue.push(Queued {
            answer,
            ..queued("a")
        });
        push(&mut queue, &["a"]);
        assert_eq!(take(&mut queue).0, ["a"]);
        assert!(queue.waiting.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn a_batch_has_a_most_and_the_rest_comes_next() {
        let mut queue = queue(&vec!["a"; BATCH + 3]);
        let (first, a) = take(&mut queue);
        assert_eq!(first.len(), BATCH);
        assert!(queue.take().is_none());
        queue.end(&a);
        assert_eq!(take(&mut queue).0.len(), 3);
    }
}
