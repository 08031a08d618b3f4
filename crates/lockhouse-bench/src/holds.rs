//! Records when the only permit was held, and how long it was idle between holds of different processes.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::measured::{Latency, Times};
use crate::shape::Shape;

/// A process, and when a client of it held the permit.
type Hold = (usize, Range<Instant>);

/// Each hold, with the process whose client had it; none are noted where several can hold at once.
#[derive(Debug)]
pub(crate) struct Holds(Option<Mutex<Vec<Hold>>>);

impl Holds {
    pub(crate) fn of(shape: &Shape) -> Self {
        let is_one = shape.semaphores == 1 && shape.capacity() == shape.count;
        Self(is_one.then(Mutex::default))
    }

    pub(crate) fn note(&self, process: usize, held: Range<Instant>) {
        if let Some(holds) = &self.0 {
            let mut holds = holds.lock().unwrap_or_else(PoisonError::into_inner);
            holds.push((process, held));
        }
    }

    /// From each release to the next grant, where that was to a client of another process; none if there was no such.
    pub(crate) fn idle(&self) -> Option<Latency> {
        let holds = self.0.as_ref()?;
        let mut holds = holds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        holds.sort_by_key(|(_, held)| held.start);
        let mut idle = Times::new();
        let mut switches = 0;
        for pair in holds.windows(2) {
            let [(from, before), (to, after)] = pair else {
                continue;
            };
            if from != to {
                switches += 1;
                idle.record(after.start.saturating_duration_since(before.end));
            }
        }
        (switches > 0).then(|| idle.latency())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_permit_is_idle_from_a_release_to_the_grant_of_another_process() {
        let shape = Shape {
            capacity: Some(1),
            ..Shape::default()
        };
        let holds = Holds::of(&shape);
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        // Noted when they were released, and so in any order.
        for (process, from, to) in [(1, 130, 140), (0, 0, 10), (0, 11, 100), (1, 145, 150)] {
            holds.note(process, at(from)..at(to));
        }
        let idle = holds.idle().unwrap();
        assert!((idle.p50_us / 30_000.0 - 1.0).abs() < 0.002, "{idle:?}");
        assert_eq!(idle.p50_us, idle.max_us);
    }

    #[test]
    fn idle_time_is_measured_only_between_single_holders_of_two_processes() {
        let now = Instant::now();
        let shape = Shape {
            capacity: Some(1),
            ..Shape::default()
        };
        let holds = Holds::of(&shape);
        holds.note(0, now..now);
        holds.note(0, now..now);
        assert!(holds.idle().is_none());
        let holds = Holds::of(&Shape::default());
        holds.note(0, now..now);
        holds.note(1, now..now);
        assert!(holds.idle().is_none());
    }
}
