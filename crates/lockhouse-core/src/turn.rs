//! Turns: who comes before whom among asks for the same semaphores.
//!
//! Those who wait stand in one line by their [`Place`], in the order in which they came; a step of
//! [`Priority`] is worth ten seconds of it. So the order of any two never changes while they wait,
//! and nobody is overtaken for ever: who comes later than a priority is worth comes behind.
//!
//! A `Place` orders the waiters of one process. The [`Line`](crate::Line) orders the processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{Ask, Claim, Priority, ProcessId, SemaphoreName, Seniority, Standing};

/// A place in a line. The lower place comes first; the default place comes before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When its holder came, moved by what its priority is worth, in microseconds.
    came_us: i64,
    /// Tells those apart who came at once.
    number: u64,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            came_us: i64::MIN,
            number: 0,
        }
    }
}

impl Place {
    /// The place of the ask that came `came` after the line began, as the one of `number`.
    pub fn new(came: Duration, priority: Priority, number: u64) -> Self {
        let came_us = i64::try_from(came.as_micros()).unwrap_or(i64::MAX);
        Self {
            came_us: came_us.saturating_sub(priority.worth_us()),
            number,
        }
    }
}

/// An ask's turn among others for the same semaphores. The default is that of an ask that comes just now,
/// does not wait and has nobody before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Where it stands.
    pub place: Place,
    /// Whether it goes on waiting if it is refused for want of room. Then those in its batch that
    /// stand behind it are not granted what it wants either.
    pub waits: bool,
    /// The semaphores for which others wait ahead of it that are not in its batch.
    pub behind: BTreeSet<SemaphoreName>,
    /// The process that it waits at.
    pub process: ProcessId,
    /// How long it has waited.
    pub waited: Duration,
}

impl Turn {
    /// The claim of `ask`, whose turn it is.
    pub fn claim(&self, ask: &Ask) -> Claim {
        Claim {
            process: self.process,
            seniority: Seniority::new(self.waited, ask.priority),
            waits: self.waits,
        }
    }
}

/// The asks of a batch that were refused and go on waiting.
#[derive(Debug, Default)]
pub(crate) struct StillWaiting {
    on: BTreeMap<SemaphoreName, Refused>,
}

/// Those of them that want one semaphore.
#[derive(Debug)]
struct Refused {
    first: Place,
    standing: Standing,
}

impl StillWaiting {
    pub(crate) fn add(&mut self, ask: &Ask, turn: &Turn) {
        let seniority = turn.claim(ask).seniority;
        for (name, count) in ask.permits() {
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

    /// The semaphores of `ask` for which others wait ahead of it, in its batch or outside.
    pub(crate) fn ahead_of(&self, ask: &Ask, turn: &Turn) -> Vec<SemaphoreName> {
        let is_taken = |name: &&SemaphoreName| {
            let refused = self.on.get(*name);
            turn.behind.contains(*name) || refused.is_some_and(|refused| refused.first < turn.place)
        };
        let names = ask.permits().map(|(name, _)| name);
        names.filter(is_taken).cloned().collect()
    }

    /// How those stand that want `name`.
    pub(crate) fn on(&self, name: &SemaphoreName) -> Option<Standing> {
        self.on.get(name).map(|refused| refused.standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_PRIORITY;

    fn place(came_s: u64, priority: i32, number: u64) -> Place {
        let priority = Priority::new(priority).unwrap();
        Place::new(Duration::from_secs(came_s), priority, number)
    }

    #[test]
    fn first_come_is_first_served() {
        assert!(place(1, 0, 9) < place(2, 0, 1));
        assert!(place(1, 0, 1) < place(1, 0, 2));
        assert!(place(1, 7, 1) < place(1, 7, 2));
    }

    /// P11: nothing waits for ever.
    #[test]
    fn a_step_of_priority_is_worth_ten_seconds() {
        assert!(place(9, 1, 2) < place(0, 0, 1));
        assert!(place(11, 1, 2) > place(0, 0, 1));
        assert!(place(0, -1, 1) > place(9, 0, 2));
        let most = 2 * u64::from(MAX_PRIORITY.unsigned_abs()) * 10;
        assert!(place(most + 1, MAX_PRIORITY, 2) > place(0, -MAX_PRIORITY, 1));
    }
}
