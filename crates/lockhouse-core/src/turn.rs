//! Turns: the order among asks for the same semaphores.
//!
//! Waiters stand in one line by their [`PlaceInLine`], in the order of arrival; a step of [`Priority`] is
//! worth ten seconds. So the order of any two waiters never changes while they wait, and no waiter
//! starves: an ask that arrives later than its priority is worth comes behind.
//!
//! A `PlaceInLine` orders the waiters of one process. The [`Line`](crate::Line) orders the processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{Ask, Claim, Priority, ProcessId, SemaphoreName, Seniority, Standing};

/// A place in a line. The lower place comes first; the default place comes before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceInLine {
    /// The waiter's time of arrival, moved by the worth of its priority, in microseconds.
    came_us: i64,
    /// Distinguishes waiters that arrived at the same time.
    number: u64,
}

impl Default for PlaceInLine {
    fn default() -> Self {
        Self {
            came_us: i64::MIN,
            number: 0,
        }
    }
}

impl PlaceInLine {
    /// The place of an ask that arrived `came` after the line began, and got `number`.
    pub fn new(came: Duration, priority: Priority, number: u64) -> Self {
        let came_us = i64::try_from(came.as_micros()).unwrap_or(i64::MAX);
        Self {
            came_us: came_us.saturating_sub(priority.worth_us()),
            number,
        }
    }

    /// The place of the same ask if it had arrived so much earlier.
    pub fn earlier_by(self, time: Duration) -> Self {
        let time_us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self {
            came_us: self.came_us.saturating_sub(time_us),
            ..self
        }
    }
}

/// An ask's turn among others for the same semaphores. The default is the turn of an ask that
/// arrives now, does not wait, and has no ask before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its place in the line of its process.
    pub place: PlaceInLine,
    /// Whether it goes on waiting if it is refused for lack of room. Then asks behind it in its
    /// batch are refused permits of its semaphores too.
    pub waits: bool,
    /// The semaphores for which asks outside its batch wait ahead of it.
    pub behind: BTreeSet<SemaphoreName>,
    /// The process at which it waits.
    pub process: ProcessId,
    /// How long it has waited.
    pub waited: Duration,
}

impl Turn {
    /// The claim of `ask`, which has this turn.
    pub fn claim(&self, ask: &Ask) -> Claim {
        Claim {
            process: self.process,
            seniority: Seniority::new(self.waited, ask.priority),
            waits: self.waits,
        }
    }
}

/// The asks of a batch that were refused and go on waiting. If a batch is sent in parts, this keeps the asks of all parts.
#[derive(Debug, Default)]
pub struct StillWaiting {
    on: BTreeMap<SemaphoreName, Refused>,
}

/// The refused asks for one semaphore.
#[derive(Debug)]
struct Refused {
    first: PlaceInLine,
    standing: Standing,
}

impl StillWaiting {
    /// Adds a refused ask. `keys` are its keyed semaphores that lack room for it, or where others come first. If there are
    /// any, it waits for those only, and holds up nobody on its other semaphores.
    pub fn add(&mut self, ask: &Ask, turn: &Turn, keys: &[SemaphoreName]) {
        let seniority = turn.claim(ask).seniority;
        let permits = ask.permits();
        for (name, count) in permits.filter(|(name, _)| keys.is_empty() || keys.contains(name)) {
            let standing = Standing {
                seniority,
                count,
                waiting: 1,
            };
            let first = turn.place;
            match self.on.get_mut(name) {
                None => {
                    let refused = Refused { first, standing };
                    self.on.insert(name.clone(), refused);
                }
                Some(refused) => {
                    refused.first = first.min(refused.first);
                    refused.standing = refused.standing.and(standing);
                }
            }
        }
    }

    /// The semaphores of `ask` for which other asks wait ahead of it, in its batch or outside.
    pub fn ahead_of(&self, ask: &Ask, turn: &Turn) -> Vec<SemaphoreName> {
        let is_taken = |name: &&SemaphoreName| {
            let refused = self.on.get(*name);
            turn.behind.contains(*name) || refused.is_some_and(|refused| refused.first < turn.place)
        };
        let names = ask.permits().map(|(name, _)| name);
        names.filter(is_taken).cloned().collect()
    }

    /// The standing of the refused asks for `name`.
    pub(crate) fn on(&self, name: &SemaphoreName) -> Option<Standing> {
        self.on.get(name).map(|refused| refused.standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_PRIORITY;

    fn place(came_s: u64, priority: i32, number: u64) -> PlaceInLine {
        let priority = Priority::new(priority).unwrap();
        PlaceInLine::new(Duration::from_secs(came_s), priority, number)
    }

    #[test]
    fn first_come_is_first_served() {
        assert!(place(1, 0, 9) < place(2, 0, 1));
        assert!(place(1, 0, 1) < place(1, 0, 2));
        assert!(place(1, 7, 1) < place(1, 7, 2));
    }

    /// P11: no waiter starves.
    #[test]
    fn a_step_of_priority_is_worth_ten_seconds() {
        assert!(place(9, 1, 2) < place(0, 0, 1));
        assert!(place(11, 1, 2) > place(0, 0, 1));
        assert!(place(0, -1, 1) > place(9, 0, 2));
        let most = 2 * u64::from(MAX_PRIORITY.unsigned_abs()) * 10;
        assert!(place(most + 1, MAX_PRIORITY, 2) > place(0, -MAX_PRIORITY, 1));
    }
}
