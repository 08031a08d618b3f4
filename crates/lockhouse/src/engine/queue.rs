//! Commands that wait for a lane.
//!
//! Each waits in one line for every semaphore that it touches, in the order in which it came. It
//! may go when it is first in all its lines and none of its semaphores is in a lane: so none
//! overtakes another that it shares a semaphore with, and finding who may go takes a look at the
//! heads of lines only, however many wait.
//!
//! Commands that touch no semaphore, as renewals and heartbeats do, stand in no line and have a lane of
//! their own. So a renewal waits for nothing but its own request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use lockhouse_core::{Command, Count, Footprint, SemaphoreName};

use super::reply_to::ReplyTo;

/// How many transactions on semaphores at once. With more, each has fewer commands to share its commit.
const LANES: usize = 3;

/// A command and who asks for it.
#[derive(Debug)]
pub(super) struct Queued {
    /// Its place in the order in which commands came; given when it is queued.
    pub(super) ticket: Ticket,
    pub(super) command: Command,
    pub(super) touches: Vec<SemaphoreName>,
    /// What it is expected to give back.
    pub(super) frees: Vec<(SemaphoreName, Count)>,
    pub(super) reply_to: ReplyTo,
}

impl Queued {
    /// One that gets its ticket when it is queued.
    pub(super) fn new(
        command: Command,
        touches: Vec<SemaphoreName>,
        frees: Vec<(SemaphoreName, Count)>,
        reply_to: ReplyTo,
    ) -> Self {
        Self {
            ticket: 0,
            command,
            touches,
            frees,
            reply_to,
        }
    }

    /// The rows that it is known to need.
    pub(super) fn needs(&self) -> Footprint {
        Footprint::of(std::slice::from_ref(&self.command), &self.touches)
    }
}

/// A command's place in the order in which they came.
pub(super) type Ticket = u64;

/// What a lane is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Commands on semaphores.
    #[default]
    Semaphores,
    /// Commands that touch no semaphore.
    Others,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The most commands that a transaction takes.
    batch: usize,
    next: Ticket,
    waiting: BTreeMap<Ticket, Queued>,
    lines: HashMap<SemaphoreName, VecDeque<Ticket>>,
    /// Who may go now.
    ready: BTreeSet<Ticket>,
    /// Semaphores that are in a lane.
    busy: HashSet<SemaphoreName>,
    lanes: usize,
    /// Who touches no semaphore.
    others: BTreeSet<Ticket>,
    others_are_in_lane: bool,
}

/// The commands of one lane, and the semaphores that they keep busy.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) kind: LaneKind,
    pub(super) commands: Vec<Queued>,
    pub(super) semaphores: HashSet<SemaphoreName>,
}

impl Queue {
    /// An empty queue for transactions of at most `batch` commands.
    pub(super) fn new(batch: usize) -> Self {
        Self {
            batch,
            ..Self::default()
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The next ticket.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.next += 1;
        self.next
    }

    /// Puts `queued` at the end of its lines.
    pub(super) fn push(&mut self, mut queued: Queued) {
        queued.ticket = self.ticket();
        self.put(queued);
    }

    /// Puts `queued` into its lines by its ticket: mostly at their ends, and further ahead if it was out of
    /// them for a while.
    pub(super) fn put(&mut self, queued: Queued) {
        let ticket = queued.ticket;
        for name in &queued.touches {
            let line = self.lines.entry(name.clone()).or_default();
            match line.back() {
                Some(last) if *last > ticket => {
                    let at = line.partition_point(|other| *other < ticket);
                    line.insert(at, ticket);
                }
                _ => line.push_back(ticket),
            }
        }
        let is_other = queued.touches.is_empty();
        self.waiting.insert(ticket, queued);
        if is_other {
            self.others.insert(ticket);
        } else {
            self.look_at(ticket);
        }
    }

    /// Takes those out of their lines of which `goes` says so.
    pub(super) fn remove_if(&mut self, goes: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        let removed: Vec<Queued> = self
            .waiting
            .extract_if(.., |_, queued| goes(queued))
            .map(|(_, queued)| queued)
            .collect();
        let mut heads = BTreeSet::new();
        for queued in &removed {
            self.ready.remove(&queued.ticket);
            self.others.remove(&queued.ticket);
            for name in &queued.touches {
                let Some(line) = self.lines.get_mut(name) else {
                    continue;
                };
                line.retain(|other| *other != queued.ticket);
                heads.extend(line.front());
                if line.is_empty() {
                    self.lines.remove(name);
                }
            }
        }
        for ticket in heads {
            self.look_at(ticket);
        }
        removed
    }

    /// What goes together in the next lane: those that share semaphores, from the first who may
    /// go on. The last free lane takes whatever may go. None if no lane is free, or nobody may go.
    ///
    /// Each is shown to `admit` in its turn, which says whether it still goes.
    pub(super) fn take(&mut self, mut admit: impl FnMut(&mut Queued) -> bool) -> Option<Taken> {
        if let Some(taken) = self.take_others(&mut admit) {
            return Some(taken);
        }
        if self.lanes == LANES {
            return None;
        }
        let is_last = self.lanes + 1 == LANES;
        let mut taken = Taken::default();
        let mut candidates = BTreeSet::new();
        while taken.commands.len() < self.batch {
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

    /// The commands that touch no semaphore, unless others of them are in their lane.
    fn take_others(&mut self, admit: &mut impl FnMut(&mut Queued) -> bool) -> Option<Taken> {
        if self.others_are_in_lane {
            return None;
        }
        let mut taken = Taken {
            kind: LaneKind::Others,
            ..Taken::default()
        };
        while taken.commands.len() < self.batch
            && let Some(ticket) = self.others.pop_first()
        {
            if let Some(mut queued) = self.waiting.remove(&ticket)
                && admit(&mut queued)
            {
                taken.commands.push(queued);
            }
        }
        self.others_are_in_lane = !taken.commands.is_empty();
        self.others_are_in_lane.then_some(taken)
    }

    /// A lane has come to its end, and frees `semaphores`.
    pub(super) fn end(&mut self, kind: LaneKind, semaphores: &HashSet<SemaphoreName>) {
        match kind {
            LaneKind::Semaphores => self.lanes -= 1,
            LaneKind::Others => self.others_are_in_lane = false,
        }
        self.free(semaphores);
    }

    /// A lane frees `semaphores`.
    pub(super) fn free(&mut self, semaphores: &HashSet<SemaphoreName>) {
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
