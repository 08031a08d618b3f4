//! A second implementation of the line of all processes: a list of all waiters, which every question goes through.
//!
//! Times are milliseconds that no clock moves. It shares no code with `decide`.

use std::collections::{BTreeMap, BTreeSet};

/// A waiter that came at most this much later may be served first, if both wait.
const WINDOW_MS: i64 = 250;

/// The time that a step of priority is worth.
const STEP_MS: i64 = 10_000;

/// A caller that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) process: usize,
    pub(super) wants: Vec<(&'static str, u32)>,
    pub(super) came_ms: i64,
    pub(super) priority: i32,
    pub(super) waits: bool,
}

impl Waiter {
    /// The waiter's place. The lower place comes first.
    pub(super) fn place(&self) -> (i64, u64) {
        let moved = i64::from(self.priority) * STEP_MS;
        (self.came_ms - moved, self.number)
    }
}

/// The answer to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Granted,
    NoRoom,
    OthersFirst,
    TooMuch,
}

/// When the entry of a process is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Along,
    Always,
    Excused,
}

/// The commands that a process sends at once.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) process: usize,
    /// Requests that end.
    pub(super) ends: Vec<u64>,
    pub(super) resized: Option<(&'static str, u32)>,
    /// The asks, in the order of their places.
    pub(super) asks: Vec<Waiter>,
    /// The semaphores on which the process writes its entry.
    pub(super) says: Vec<(&'static str, When)>,
}

#[derive(Debug)]
struct Semaphore {
    capacity: u32,
    is_key: bool,
    /// Whether the semaphore exists. The first grant of a key creates it.
    is_there: bool,
    /// All waiters in its line, as the processes last wrote them.
    line: Vec<Waiter>,
    /// Since when free permits are left to the first waiter.
    left_since: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Model {
    semaphores: BTreeMap<&'static str, Semaphore>,
    held: BTreeMap<u64, Vec<(&'static str, u32)>>,
}

/// The effect of a batch on one semaphore.
#[derive(Debug, Default)]
struct Touched {
    written: BTreeSet<&'static str>,
    /// The semaphores on which the time that permits are left to the first begins again.
    restarted: BTreeSet<&'static str>,
    /// The refused asks that go on waiting, and the semaphores for which each waits.
    refused: Vec<(Waiter, Vec<&'static str>)>,
}

impl Touched {
    fn refused_on(&self, name: &str) -> impl Iterator<Item = &Waiter> {
        let refused = self.refused.iter();
        refused.filter_map(move |(waiter, on)| on.contains(&name).then_some(waiter))
    }
}

impl Model {
    pub(super) fn new(plain: &[(&'static str, u32)], keys: &[(&'static str, u32)]) -> Self {
        let of = |is_key| {
            move |(name, capacity): &(&'static str, u32)| {
                let semaphore = Semaphore {
                    capacity: *capacity,
                    is_key,
                    is_there: !is_key,
                    line: Vec::new(),
                    left_since: None,
                };
                (*name, semaphore)
            }
        };
        let semaphores = plain.iter().map(of(false)).chain(keys.iter().map(of(true)));
        Self {
            semaphores: semaphores.collect(),
            held: BTreeMap::new(),
        }
    }

    /// The numbers of the requests that hold permits.
    pub(super) fn held(&self) -> Vec<u64> {
        self.held.keys().copied().collect()
    }

    /// The first waiter of `process` in the line of `name`, how many permits it asks for, and how many wait there.
    pub(super) fn head(&self, name: &str, process: usize) -> Option<(Waiter, u32, usize)> {
        let its = || {
            let line = self.semaphores[name].line.iter();
            line.filter(|waiter| waiter.process == process)
        };
        let first = its().min_by_key(|waiter| waiter.place())?;
        Some((first.clone(), wanted(first, name), its().count()))
    }

    /// The answers to a batch of a process.
    pub(super) fn run(&mut self, now: i64, batch: &Batch) -> Vec<Told> {
        let mut touched = Touched::default();
        for id in &batch.ends {
            let names = self.held.remove(id).unwrap_or_default();
            touched.written.extend(names.iter().map(|(name, _)| *name));
        }
        if let Some((name, capacity)) = batch.resized
            && let Some(semaphore) = self.semaphores.get_mut(name)
            && semaphore.capacity != capacity
        {
            semaphore.capacity = capacity;
            touched.written.insert(name);
            touched.restarted.insert(name);
        }
        let asks = batch.asks.iter();
        let told = asks.map(|ask| self.ask(now, ask, &mut touched)).collect();
        for (name, when) in &batch.says {
            self.says(batch.process, (*name, *when), &mut touched);
        }
        for name in &touched.written {
            self.settle(now, name, touched.restarted.contains(name));
        }
        told
    }

    fn ask(&mut self, now: i64, ask: &Waiter, touched: &mut Touched) -> Told {
        let all = |test: &dyn Fn(&'static str, u32) -> bool| {
            ask.wants.iter().all(|(name, count)| test(name, *count))
        };
        if !all(&|name, count| count <= self.semaphores[name].capacity) {
            return Told::TooMuch;
        }
        let told = if !all(&|name, count| count <= self.free(name)) {
            Told::NoRoom
        } else if !all(&|name, _| self.is_its_turn(now, name, ask, touched)) {
            Told::OthersFirst
        } else {
            self.grant(ask, touched);
            Told::Granted
        };
        if told != Told::Granted && ask.waits {
            let lacks = |(name, count): &&(&'static str, u32)| {
                self.semaphores[name].is_key
                    && (*count > self.free(name) || !self.is_its_turn(now, name, ask, touched))
            };
            let mut on: Vec<_> = ask
                .wants
                .iter()
                .filter(lacks)
                .map(|(name, _)| *name)
                .collect();
            if on.is_empty() {
                on = ask.wants.iter().map(|(name, _)| *name).collect();
            }
            touched.refused.push((ask.clone(), on));
        }
        told
    }

    fn grant(&mut self, ask: &Waiter, touched: &mut Touched) {
        for (name, _) in &ask.wants {
            let passed = self.ahead(name, ask);
            let semaphore = self.semaphores.get_mut(name).expect("all are known");
            semaphore
                .line
                .retain(|waiter| !passed.contains(&waiter.process));
            semaphore.is_there = true;
            touched.written.insert(name);
            touched.restarted.insert(name);
        }
        self.held.insert(ask.number, ask.wants.clone());
    }

    /// Whether no other waiter comes first, here or at another process, or those that do have had their time.
    fn is_its_turn(&self, now: i64, name: &str, ask: &Waiter, touched: &Touched) -> bool {
        let mut here = touched.refused_on(name);
        if here.any(|other| other.place() < ask.place()) {
            return false;
        }
        let ahead = self.ahead(name, ask).len();
        let mut patience_ms = 700;
        let mut many = 1;
        while many < ahead {
            many *= 2;
            patience_ms += 500;
        }
        let since = self.semaphores[name].left_since;
        ahead == 0 || since.is_some_and(|since| now - since >= patience_ms)
    }

    /// The other processes whose first waiter comes before `ask`, and could be granted at all.
    fn ahead(&self, name: &str, ask: &Waiter) -> Vec<usize> {
        let window_ms = if ask.waits { WINDOW_MS } else { 0 };
        let processes = self.semaphores[name]
            .line
            .iter()
            .map(|waiter| waiter.process);
        let others: BTreeSet<_> = processes
            .filter(|process| *process != ask.process)
            .collect();
        let is_ahead = |process: &usize| {
            self.head(name, *process).is_some_and(|(first, count, _)| {
                let fits = count <= self.semaphores[name].capacity;
                fits && first.place().0 < ask.place().0 - window_ms
            })
        };
        others.into_iter().filter(is_ahead).collect()
    }

    fn says(&mut self, process: usize, (name, when): (&'static str, When), touched: &mut Touched) {
        let refused: Vec<_> = touched.refused_on(name).cloned().collect();
        let semaphore = self.semaphores.get_mut(name).expect("all are known");
        let is_saved = when != When::Along || touched.written.contains(name);
        if !semaphore.is_there || !is_saved {
            return;
        }
        semaphore.line.retain(|waiter| waiter.process != process);
        semaphore.line.extend(refused);
        touched.written.insert(name);
        if when == When::Excused {
            touched.restarted.insert(name);
        }
    }

    fn settle(&mut self, now: i64, name: &str, restarts: bool) {
        let is_full = self.free(name) == 0;
        let semaphore = self.semaphores.get_mut(name).expect("all are known");
        semaphore.left_since = match semaphore.left_since {
            _ if is_full || semaphore.line.is_empty() => None,
            Some(since) if !restarts => Some(since),
            _ => Some(now),
        };
    }

    fn free(&self, name: &str) -> u32 {
        let held = self.held.values().flatten();
        let counts = held.filter(|(its, _)| *its == name).map(|(_, count)| count);
        let in_use: u32 = counts.sum();
        self.semaphores[name].capacity.saturating_sub(in_use)
    }
}

fn wanted(waiter: &Waiter, name: &str) -> u32 {
    let mut wants = waiter.wants.iter();
    wants
        .find_map(|(its, count)| (*its == name).then_some(*count))
        .unwrap_or(0)
}
