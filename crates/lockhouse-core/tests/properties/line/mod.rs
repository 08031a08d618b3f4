//! P11: the line of all processes, against a [list](model) of all waiters.
//!
//! Three processes ask for two semaphores and for two keys, which a template makes. They wait, poll, give up, end requests,
//! and write their entries in the line, or are silent for a while like a dead process. The store's clock is set by an hour now
//! and then. Then `decide` is broken on purpose, and each break must be caught.

mod corrupt;
mod model;
mod mutants;
mod steps;

use std::time::Duration;

use lockhouse_core::{
    Ask, Cause, Command, Count, Definition, Idle, Outcome, PlaceInLine, Priority, ProcessId,
    Refusal, Reply, Saved, Seniority, Stand, Template, Timestamp, Turn, decide,
};
use proptest::prelude::*;

use crate::broken::Broken;
use crate::check::Decide;
use crate::commit::Commit;
use crate::promises;
use crate::rows::Rows;
use crate::words::{at, capacity, id, name};
use model::{Batch, Model, Told, Waiter, When};
use steps::{Deed, HOUR_MS, KEYS, NAMES, PLAIN, PROCESSES, Step, steps};

proptest! {
    /// P1 to P7, P11.
    #[test]
    fn processes_are_served_as_by_a_list_of_all_waiters(steps in steps()) {
        if let Err(broken) = check(decide, &steps) {
            return Err(TestCaseError::fail(format!("{broken:#?}")));
        }
    }
}

/// Goes through all steps, until a rule is broken.
fn check(decide: Decide, steps: &[Step]) -> Result<Seen, Vec<Broken>> {
    let mut world = World::new(decide);
    for step in steps {
        world.take(step)?;
    }
    Ok(world.seen)
}

/// How often each kind of decision came up.
#[derive(Debug, Default)]
struct Seen {
    granted: u32,
    others_first: u32,
    within_the_window: u32,
}

struct World {
    decide: Decide,
    rows: Rows,
    model: Model,
    waiting: Vec<Waiter>,
    last: u64,
    now_ms: i64,
    /// How far the store's clock is set ahead.
    set_ms: i64,
    seen: Seen,
}

impl World {
    fn new(decide: Decide) -> Self {
        let mut rows = Rows::default();
        let defined: Vec<_> = PLAIN
            .iter()
            .map(|(text, number)| Command::Define(Definition::new(name(text), capacity(*number))))
            .collect();
        let decision = lockhouse_core::decide(rows.load(at(0), &defined), &defined);
        rows.save(&decision.changes).expect("nothing is granted");
        let (_, of_each) = KEYS[0];
        rows.templates = vec![Template {
            pattern: "k/*".parse().expect("a test's pattern is valid"),
            capacity: capacity(of_each),
            idle: Idle::from_ms(1_000_000_i64).expect("a test's idle time is in bounds"),
            created_at: at(0),
            updated_at: at(0),
        }];
        Self {
            decide,
            rows,
            model: Model::new(&PLAIN, &KEYS),
            waiting: Vec::new(),
            last: 0,
            now_ms: 0,
            set_ms: 0,
            seen: Seen::default(),
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), Vec<Broken>> {
        self.now_ms += step.after_ms;
        let mut batch = Batch {
            process: step.process,
            ends: Vec::new(),
            resized: None,
            asks: Vec::new(),
            says: NAMES.map(|name| (name, step.when)).to_vec(),
        };
        match &step.deed {
            Deed::Ask {
                wants,
                priority,
                waits,
            } => {
                self.last += 1;
                self.waiting.push(Waiter {
                    number: self.last,
                    process: step.process,
                    wants: wants.clone(),
                    came_ms: self.now_ms,
                    priority: *priority,
                    waits: *waits,
                });
            }
            Deed::Look => {}
            Deed::End(nth) => {
                let held = self.model.held();
                batch.ends.extend(held.get(nth % held.len().max(1)));
            }
            Deed::GiveUp(nth) => {
                let mut its = self
                    .waiting
                    .iter()
                    .filter(|its| its.process == step.process);
                let gone = its.nth(*nth).map(|waiter| waiter.number);
                self.waiting.retain(|waiter| Some(waiter.number) != gone);
            }
            Deed::Resize(name, capacity) => batch.resized = Some((name, *capacity)),
            // The times saved before and after it show how far the clock was set.
            Deed::SetClock(hours) => {
                batch.says = NAMES.map(|name| (name, When::Always)).to_vec();
                self.send(&mut batch)?;
                self.set_ms += hours * HOUR_MS;
            }
        }
        self.send(&mut batch)
    }

    /// The process asks once more for all its waiters, and its answers must be the model's.
    fn send(&mut self, batch: &mut Batch) -> Result<(), Vec<Broken>> {
        let process = batch.process;
        let its = self.waiting.iter().filter(|its| its.process == process);
        batch.asks = its.cloned().collect();
        batch.asks.sort_by_key(Waiter::place);
        let now = at(self.now_ms + self.set_ms);
        let commands = self.commands(batch);
        let before = self.rows.clone();
        let decision = (self.decide)(before.load(now, &commands), &commands);
        self.note(batch);
        let expected = self.model.run(self.now_ms, batch);
        let asked = commands.iter().zip(&decision.outcomes);
        let asked = asked.filter(|(command, _)| command.ask().is_some());
        let told: Vec<_> = asked.map(|(_, outcome)| told(outcome)).collect();
        let mut broken = Vec::new();
        if told != expected.iter().copied().map(Some).collect::<Vec<_>>() {
            let what = format!("{batch:#?}\nwere told {told:?}, expected {expected:?}");
            broken.push(Broken { rule: "P11", what });
        }
        if let Err(id) = self.rows.save(&decision.changes) {
            let what = format!("{id} was there and was granted again");
            broken.push(Broken { rule: "P5", what });
            return Err(broken);
        }
        broken.extend(self.stands_otherwise(now));
        broken.extend(promises::broken_by(&Commit {
            now,
            before: &before,
            commands: &commands,
            outcomes: &decision.outcomes,
            after: &self.rows,
        }));
        for (ask, told) in batch.asks.iter().zip(&expected) {
            self.seen.granted += u32::from(*told == Told::Granted);
            self.seen.others_first += u32::from(*told == Told::OthersFirst);
            let is_over = !ask.waits || *told == Told::Granted;
            self.waiting
                .retain(|waiter| !is_over || waiter.number != ask.number);
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(broken),
        }
    }

    fn commands(&self, batch: &Batch) -> Vec<Command> {
        let ends = batch.ends.iter().map(|number| Command::End {
            external_id: id(&number.to_string()),
            cause: Cause::Released { by: None },
        });
        let resized = batch.resized.iter().map(|(text, number)| {
            let definition = Definition::new(name(text), capacity(*number));
            Command::Define(definition)
        });
        let asks = batch.asks.iter().map(|waiter| self.acquire(waiter));
        let says = batch.says.iter().map(|(text, when)| Command::Stand {
            name: name(text),
            stand: Stand {
                process: process(batch.process),
                standing: None,
                saved: match when {
                    When::Along => Saved::Along,
                    When::Always => Saved::Always,
                    When::Excused => Saved::Excused,
                },
            },
        });
        ends.chain(resized).chain(asks).chain(says).collect()
    }

    fn acquire(&self, waiter: &Waiter) -> Command {
        let wants = waiter.wants.iter();
        let permits = wants.map(|(text, number)| {
            let count = Count::new(*number).expect("a test's count is in bounds");
            (name(text), count)
        });
        let mut ask = Ask::new(id(&waiter.number.to_string()), permits).expect("it names some");
        ask.priority = priority(waiter);
        let turn = Turn {
            place: PlaceInLine::new(ms(waiter.came_ms), ask.priority, waiter.number),
            waits: waiter.waits,
            process: process(waiter.process),
            waited: ms(self.now_ms - waiter.came_ms),
            ..Turn::default()
        };
        Command::Acquire { ask, turn }
    }

    /// P11: the first waiter of each process has the same place in the row's line as in the model's.
    fn stands_otherwise(&self, now: Timestamp) -> Vec<Broken> {
        let mut broken = Vec::new();
        for (text, of) in NAMES
            .iter()
            .flat_map(|name| (0..PROCESSES).map(move |of| (name, of)))
        {
            let line = self.rows.semaphores.get(&name(text)).map(|row| &row.line);
            let entry = line.and_then(|line| line.entry(process(of)));
            let entry = entry.map(|entry| (entry.place, entry.count, entry.waiting as usize));
            let head = self.model.head(text, of).zip(line);
            let expected = head.map(|((first, count, waiting), line)| {
                let waited = ms(self.now_ms - first.came_ms);
                let seniority = Seniority::new(waited, priority(&first));
                (line.time(now).place(seniority), count, waiting)
            });
            if entry != expected {
                let what = format!("{of} stands in {text} as {entry:?}, expected {expected:?}");
                broken.push(Broken { rule: "P11", what });
            }
        }
        broken
    }

    /// The next step, with the state before the batch.
    fn note(&mut self, batch: &Batch) {
        for ask in &batch.asks {
            let wants = ask.wants.iter().map(|(name, _)| *name);
            let heads = wants.flat_map(|name| (0..PROCESSES).map(move |of| (name, of)));
            let others = heads.filter(|(_, of)| *of != ask.process);
            let places = others.filter_map(|(name, of)| self.model.head(name, of));
            let ahead = places.map(|(first, ..)| ask.place().0 - first.place().0);
            let within = ahead.filter(|ahead| (1..=250).contains(ahead)).count();
            self.seen.within_the_window += u32::from(within > 0);
        }
    }
}

fn process(number: usize) -> ProcessId {
    ProcessId::new(1 + number as u64)
}

fn priority(waiter: &Waiter) -> Priority {
    Priority::new(waiter.priority).expect("a test's priority is in bounds")
}

fn ms(ms: i64) -> Duration {
    Duration::from_millis(ms.try_into().expect("time goes on"))
}

/// `None` for an answer that no ask here may get.
fn told(outcome: &Outcome) -> Option<Told> {
    match outcome {
        Ok(Reply::Granted { now: true, .. }) => Some(Told::Granted),
        Err(Refusal::Exhausted(_)) => Some(Told::NoRoom),
        Err(Refusal::OthersFirst(_)) => Some(Told::OthersFirst),
        Err(Refusal::ExceedsCapacity { .. }) => Some(Told::TooMuch),
        _ => None,
    }
}
