//! The sizes of the suite: rounds, times and numbers of rows.

use crate::shape::Shape;

/// How many requests are held before a contest, how many have ended, and on how many semaphores.
pub(super) const HELD: u32 = 100_000;
pub(super) const ENDED: u32 = 1_000_000;
const SEMAPHORES: usize = 10_000;

/// The sizes of a suite.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Rounds of each contest.
    pub rounds: usize,
    /// The measured time of each, in milliseconds.
    pub time_ms: u64,
    /// The warm-up of each, in milliseconds.
    pub warm_up_ms: u64,
    /// Whether the suite only shows that everything runs: all sizes are small, and no target is checked.
    pub quick: bool,
}

impl Scale {
    /// The sizes of the published figures.
    pub fn full() -> Self {
        Self {
            rounds: 5,
            time_ms: 3_000,
            warm_up_ms: 1_000,
            quick: false,
        }
    }

    /// A few seconds in all.
    pub fn quick() -> Self {
        Self {
            rounds: 1,
            time_ms: 200,
            warm_up_ms: 50,
            quick: true,
        }
    }

    pub(super) fn shape(&self, clients: usize) -> Shape {
        Shape {
            clients: if self.quick { clients.min(16) } else { clients },
            time_ms: self.time_ms,
            warm_up_ms: self.warm_up_ms,
            ..Shape::default()
        }
    }

    pub(super) fn rows(&self, rows: u32) -> u32 {
        if self.quick { rows / 1_000 } else { rows }
    }

    pub(super) fn semaphores(&self) -> usize {
        if self.quick { 100 } else { SEMAPHORES }
    }
}
