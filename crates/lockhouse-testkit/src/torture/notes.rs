//! The notes that a client process takes of its calls, in a separate file.
//!
//! The client writes a line by one write(2) before it sends a call, and another line after the answer. So the file has every
//! call that was begun, even if the process was killed. Calls without an answer have an unknown outcome. Spaces separate
//! words, and no name has spaces:
//!
//! ```text
//! B 0 7 1200 A id ttl owner waits semaphore:count…
//! E 0 1300 G now semaphore:count:fence…
//! ```
//!
//! `waits` is 0 or 1, then `@` and the priority unless that is 0.

#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use words::{begun, ended, of_answer, of_call};

use super::probe::{asked_of, shows};
use crate::history::{Answer, Call, Notebook, Operation, now_us};

/// A file of notes.
#[derive(Debug)]
pub(super) struct Notes {
    file: File,
    lines: AtomicUsize,
    seen: Mutex<Seen>,
    /// The number of answered calls.
    answered: AtomicU64,
}

#[derive(Debug, Default)]
struct Seen {
    /// The calls under way: when each began, and the parts that it asks.
    under_way: HashMap<usize, (u64, Vec<String>)>,
    /// For each part, when the latest call began that showed it at work.
    at_work: BTreeMap<String, u64>,
}

impl Notes {
    /// Creates a file of notes.
    pub(super) fn create(path: &Path) -> Self {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        Self {
            file: file.unwrap(),
            lines: AtomicUsize::new(0),
            seen: Mutex::default(),
            answered: AtomicU64::new(0),
        }
    }

    /// The number of answered calls.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The time such that calls since then showed all of these parts at work. 0 if a part never was.
    pub(super) fn at_work(&self, all: &[String]) -> u64 {
        let seen = self.seen();
        let since = all.iter().map(|what| seen.at_work.get(what));
        let since = since.map(|us| us.copied().unwrap_or_default());
        since.min().unwrap_or_default()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &str) {
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

impl Notebook for Notes {
    fn begin(&self, client: u32, call: Call) -> usize {
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        let begun = now_us();
        let asked_of = asked_of(&call);
        self.seen().under_way.insert(number, (begun, asked_of));
        self.write(&format!("B {number} {client} {begun} {}\n", of_call(&call)));
        number
    }

    fn end(&self, place: usize, answer: &Answer) {
        let ended = now_us();
        self.write(&format!("E {place} {ended} {}\n", of_answer(answer)));
        if *answer != Answer::Unknown {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let mut seen = self.seen();
        let Some((begun, things)) = seen.under_way.remove(&place) else {
            return;
        };
        if shows(answer, things.len()) {
            for thing in things {
                let latest = seen.at_work.entry(thing).or_default();
                *latest = begun.max(*latest);
            }
        }
    }
}

/// The operations in a file of notes. Skips a last line that was cut short.
pub fn read(path: &Path) -> Vec<Operation> {
    let text = std::fs::read_to_string(path).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut operations: Vec<Operation> = Vec::new();
    let mut places = HashMap::new();
    for line in whole.lines() {
        let mut words = line.split_whitespace();
        let noted = match words.next() {
            Some("B") => begun(&mut words).map(|(number, operation)| {
                places.insert(number, operations.len());
                operations.push(operation);
            }),
            _ => ended(&mut words).and_then(|(number, ended, answer)| {
                let operation = &mut operations[*places.get(&number)?];
                (operation.ended, operation.answer) = (ended, answer);
                Some(())
            }),
        };
        assert!(noted.is_some(), "not a note: {line:?} in {path:?}");
    }
    operations
}
