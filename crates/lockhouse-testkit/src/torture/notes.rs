//! The notes that a client process takes of its calls, in a file of its own.
//!
//! A line is written, by one write(2), before a call is sent, and another when it was answered. So
//! whatever becomes of the process, the calls that it had begun are there, and those that were never
//! answered are unknown. Words are parted by spaces, which no name here has:
//!
//! ```text
//! B 0 7 1200 A id ttl owner waits semaphore:count…
//! E 0 1300 G now semaphore:count:fence…
//! ```

#[cfg(test)]
mod tests;
mod words;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use words::{begun, ended, of_answer, of_call};

use crate::history::{Answer, Call, Notebook, Operation, Refused, now_us};

/// A file of notes.
#[derive(Debug)]
pub(super) struct Notes {
    file: File,
    lines: AtomicUsize,
    /// When the calls began that are under way.
    under_way: Mutex<HashMap<usize, u64>>,
    /// Of the calls that were answered.
    answered: AtomicU64,
    /// When the last call began that was answered by the rules.
    last: AtomicU64,
}

impl Notes {
    /// A new file.
    pub(super) fn create(path: &Path) -> Self {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        Self {
            file: file.unwrap(),
            lines: AtomicUsize::new(0),
            under_way: Mutex::default(),
            answered: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// How many calls were answered, and the latest beginning of one that was answered by the rules.
    pub(super) fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.answered), read(&self.last))
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<usize, u64>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &str) {
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

impl Notebook for Notes {
    fn begin(&self, client: u32, call: Call) -> usize {
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        let begun = now_us();
        self.under_way().insert(number, begun);
        self.write(&format!("B {number} {client} {begun} {}\n", of_call(&call)));
        number
    }

    fn end(&self, place: usize, answer: &Answer) {
        let ended = now_us();
        let begun = self.under_way().remove(&place).unwrap_or_default();
        self.write(&format!("E {place} {ended} {}\n", of_answer(answer)));
        if *answer != Answer::Unknown {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        if !matches!(answer, Answer::Unknown | Answer::Refused(Refused::Other(_))) {
            self.last.fetch_max(begun, Ordering::Relaxed);
        }
    }
}

/// What a file of notes says. A last line that was cut short is left out.
pub(super) fn read(path: &Path) -> Vec<Operation> {
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
