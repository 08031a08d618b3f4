//! Commands that wait for a lane.
//!
//! Each waits in one line for every semaphore that it touches, in the order in which it came. It
//! may go when it is first in all its lines and none of its semaphores is in a lane: so none
//! overtakes another that it shares a semaphore with, and finding who may go takes a look at the
//! heads of lines only, however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use lockhouse_core::{Command, Count, SemaphoreName};

use super::asker::Asker;

/// How many transactions at once. With more, each has fewer commands to share its commit.
const LANES: usize = 3;

/// How many commands one transaction takes at most.
const BATCH: usize = 512;

/// How many commands may wait for a lane.
const MOST: usize = 50_000;

/// A command and who asks for it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) command: Command,
    pub(super) touches: Vec<SemaphoreName>,
    /// What it is expected to give back.
    pub(super) frees: Vec<(SemaphoreName, Count)>,
    pub(super) asker: Asker,
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
    /// Whether there are as many as may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Puts `queued` at the end of its lines.
    pub(super) fn push(&mut self, queued: Queued) {
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
    }

    /// What goes together in the next lane: those that share semaphores, from the first who may
    /// go on. The last free lane takes whatever may go. None if no lane is free, or nobody may go.
    ///
    /// Each is shown to `admit` in its turn, which says whether it still goes.
    pub(super) fn take(&mut self, mut admit: impl FnMut(&mut Queued) -> bool) -> Option<Taken> {
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
            let Some(mut queued) = self.leave(ticket) else {
                continue;
            };
            let heads = queued.touches.iter().filter_map(|name| self.head(name));
            candidates.extend(heads);
            // Whoever went away is not taken, but those behind may go.
            if admit(&mut queued) {
                taken.semaphores.extend(queued.touches.iter().cloned());
                taken.commands.push(queued);
            }
        }
        let set_off = self.set_off(taken);
        // Behind one who went away there may be some whose semaphores are in no lane.
        for ticket in candidates {
            self.look_at(ticket);
        }
        set_off
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
mod tests;
