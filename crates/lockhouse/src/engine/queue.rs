//! Commands that wait for a lane.
//!
//! A command stands in one line for every semaphore that it touches, in the order of arrival. It is
//! ready when it is first in all its lines and none of its semaphores is in a lane. So no command
//! overtakes another with which it shares a semaphore. Finding a ready command reads only the heads
//! of lines, however many commands wait.
//!
//! While the store is busy with a semaphore, later commands on it wait here without a connection. So a slower store gets
//! larger batches. The last free lane takes any ready command, so that many quiet semaphores share a commit too.
//!
//! Commands that touch no semaphore, such as renewals and heartbeats, stand in no line and have a
//! separate lane. So a renewal waits only for its own request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use lockhouse_core::{Command, Count, Footprint, Gap, Request, SemaphoreName};

use super::reply_to::ReplyTo;

/// How many transactions on semaphores run at once. With more of them, fewer commands share each
/// commit.
const LANES: usize = 3;

/// The semaphores that a command touches, and the permits that it will free.
#[derive(Debug, Default)]
pub(super) struct Touches {
    pub(super) semaphores: Vec<SemaphoreName>,
    pub(super) frees: Vec<(SemaphoreName, Count)>,
}

/// The permits of `request`.
pub(super) fn permits(request: &Request) -> Vec<(SemaphoreName, Count)> {
    let permits = request.permits.iter();
    permits
        .map(|permit| (permit.semaphore.clone(), permit.count))
        .collect()
}

/// A command, and where its answer goes.
#[derive(Debug)]
pub(super) struct Queued {
    /// Its place in the order of arrival, assigned when it is queued.
    pub(super) sequence: Sequence,
    pub(super) command: Command,
    pub(super) touches: Vec<SemaphoreName>,
    /// The permits that it is expected to free.
    pub(super) frees: Vec<(SemaphoreName, Count)>,
    pub(super) reply_to: ReplyTo,
}

impl Queued {
    /// A command that gets its sequence number when it is queued.
    pub(super) fn new(
        command: Command,
        touches: Vec<SemaphoreName>,
        frees: Vec<(SemaphoreName, Count)>,
        reply_to: ReplyTo,
    ) -> Self {
        Self {
            sequence: 0,
            command,
            touches,
            frees,
            reply_to,
        }
    }

    /// The rows that the command is known to need.
    pub(super) fn needs(&self) -> Footprint {
        Footprint::of(std::slice::from_ref(&self.command), &self.touches)
    }

    /// Whether the command is known to need one of the rows `locked`, or may have to make a row in
    /// one of its gaps.
    pub(super) fn needs_any(&self, locked: &Footprint) -> bool {
        self.needs().overlaps(locked) || locked.gaps.iter().any(|gap| self.may_fill(gap))
    }

    /// Whether the command may have to make a row in `gap`.
    pub(super) fn may_fill(&self, gap: &Gap) -> bool {
        self.command.may_make().any(|key| gap.has(&key))
    }
}

/// A command's place in the order of arrival.
pub(super) type Sequence = u64;

/// The kind of commands in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Commands on semaphores.
    #[default]
    Semaphores,
    /// Commands that touch no semaphore.
    Others,
    /// Commands on one semaphore that is locked. They wait in the database's own lock queue, and take
    /// none of the lanes.
    Locked,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The most commands in one transaction.
    batch: usize,
    next: Sequence,
    waiting: BTreeMap<Sequence, Queued>,
    lines: HashMap<SemaphoreName, VecDeque<Sequence>>,
    /// Commands that may be ready. Checked again before they are taken.
    ready: BTreeSet<Sequence>,
    /// Semaphores that are in a lane.
    busy: HashSet<SemaphoreName>,
    lanes: usize,
    /// Commands that touch no semaphore.
    others: BTreeSet<Sequence>,
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

    /// The most commands in one transaction.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// How many commands wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The next sequence number.
    pub(super) fn sequence(&mut self) -> Sequence {
        self.next += 1;
        self.next
    }

    /// Puts `queued` at the end of its lines.
    pub(super) fn push(&mut self, mut queued: Queued) {
        queued.sequence = self.sequence();
        self.put(queued);
    }

    /// Puts `queued` into its lines by its number: mostly at the end, and further ahead if it was
    /// blocked for a while.
    pub(super) fn put(&mut self, queued: Queued) {
        let sequence = queued.sequence;
        for name in &queued.touches {
            let line = self.lines.entry(name.clone()).or_default();
            match line.back() {
                Some(last) if *last > sequence => {
                    let at = line.partition_point(|other| *other < sequence);
                    line.insert(at, sequence);
                }
                _ => line.push_back(sequence),
            }
        }
        let is_other = queued.touches.is_empty();
        self.waiting.insert(sequence, queued);
        if is_other {
            self.others.insert(sequence);
        } else {
            self.look_at(sequence);
        }
    }

    /// Removes and returns the commands for which `goes` is true.
    pub(super) fn remove_if(&mut self, goes: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        let removed: Vec<Queued> = self
            .waiting
            .extract_if(.., |_, queued| goes(queued))
            .map(|(_, queued)| queued)
            .collect();
        let mut heads = BTreeSet::new();
        for queued in &removed {
            self.ready.remove(&queued.sequence);
            self.others.remove(&queued.sequence);
            for name in &queued.touches {
                let Some(line) = self.lines.get_mut(name) else {
                    continue;
                };
                line.retain(|other| *other != queued.sequence);
                heads.extend(line.front());
                if line.is_empty() {
                    self.lines.remove(name);
                }
            }
        }
        for sequence in heads {
            self.look_at(sequence);
        }
        removed
    }

    /// Takes the commands of the next lane: the first ready command, and those that share
    /// semaphores with it. The last free lane takes any ready command. Returns `None` if no lane is
    /// free or no command is ready.
    ///
    /// `admit` sees each command in its turn and says whether to take it.
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
            let Some(sequence) = candidates
                .pop_first()
                .or_else(|| other().flatten().copied())
            else {
                break;
            };
            if !self.is_first_in_its_lines(sequence) || !self.is_free(sequence, &taken) {
                self.ready.remove(&sequence);
                continue;
            }
            let Some(mut queued) = self.leave(sequence) else {
                continue;
            };
            let heads = queued.touches.iter().filter_map(|name| self.head(name));
            candidates.extend(heads);
            // If the caller went away, the command is not taken, but the commands behind it may be.
            if admit(&mut queued) {
                taken.semaphores.extend(queued.touches.iter().cloned());
                taken.commands.push(queued);
            }
        }
        let set_off = self.set_off(taken);
        // Behind a command whose caller went away there may be ready ones.
        for sequence in candidates {
            self.look_at(sequence);
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
            && let Some(sequence) = self.others.pop_first()
        {
            if let Some(mut queued) = self.waiting.remove(&sequence)
                && admit(&mut queued)
            {
                taken.commands.push(queued);
            }
        }
        self.others_are_in_lane = !taken.commands.is_empty();
        self.others_are_in_lane.then_some(taken)
    }

    /// Records that a lane has ended, and frees `semaphores`.
    pub(super) fn end(&mut self, kind: LaneKind, semaphores: &HashSet<SemaphoreName>) {
        match kind {
            LaneKind::Semaphores => self.lanes -= 1,
            LaneKind::Others => self.others_are_in_lane = false,
            LaneKind::Locked => {}
        }
        self.free(semaphores);
    }

    /// Records that a lane no longer needs `semaphores`.
    pub(super) fn free(&mut self, semaphores: &HashSet<SemaphoreName>) {
        for name in semaphores {
            self.busy.remove(name);
        }
        for sequence in semaphores
            .iter()
            .filter_map(|name| self.head(name))
            .collect::<Vec<_>>()
        {
            self.look_at(sequence);
        }
    }

    fn set_off(&mut self, taken: Taken) -> Option<Taken> {
        for name in &taken.semaphores {
            if let Some(sequence) = self.head(name) {
                self.ready.remove(&sequence);
            }
        }
        if taken.commands.is_empty() {
            return None;
        }
        self.busy.extend(taken.semaphores.iter().cloned());
        self.lanes += 1;
        Some(taken)
    }

    /// Marks `sequence` as ready if it is first in its lines and its semaphores are free.
    fn look_at(&mut self, sequence: Sequence) {
        if self.is_first_in_its_lines(sequence) && self.is_free(sequence, &Taken::default()) {
            self.ready.insert(sequence);
        }
    }

    fn is_first_in_its_lines(&self, sequence: Sequence) -> bool {
        let mut touches = self.touches(sequence);
        touches.all(|name| self.head(name) == Some(sequence))
    }

    /// Whether no lane has the command's semaphores, apart from that of `taken`.
    fn is_free(&self, sequence: Sequence, taken: &Taken) -> bool {
        let mut touches = self.touches(sequence);
        touches.all(|name| !self.busy.contains(name) || taken.semaphores.contains(name))
    }

    fn touches(&self, sequence: Sequence) -> impl Iterator<Item = &SemaphoreName> {
        let queued = self.waiting.get(&sequence);
        queued.into_iter().flat_map(|queued| &queued.touches)
    }

    fn head(&self, name: &SemaphoreName) -> Option<Sequence> {
        self.lines.get(name)?.front().copied()
    }

    /// Removes a command that is first in its lines from all of them.
    fn leave(&mut self, sequence: Sequence) -> Option<Queued> {
        self.ready.remove(&sequence);
        let queued = self.waiting.remove(&sequence)?;
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
