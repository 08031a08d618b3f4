//! The time of a line.
//!
//! It follows the store's clock, but goes on evenly when that clock is set: what the clock is set back by, or ahead by
//! more than a line could be left alone for, is made up for.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::{Priority, Timestamp};

/// What a step of priority is worth.
const STEP_US: i64 = 10_000_000;

/// A clock that shows so much less than before was set back. Less is how clocks are kept in step.
const SET_BACK_US: i64 = 1_000_000;

/// A line is written at least every 20 s while somebody waits. A clock that shows so much more was set ahead.
const SET_AHEAD_US: i64 = 30_000_000;

/// A time, or a place, in a line: microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineTime(pub(super) i64);

impl LineTime {
    pub(super) fn of(now: Timestamp) -> Self {
        Self(now.as_microsecond())
    }

    /// How long it is after `earlier`; nothing if it is not.
    pub fn since(self, earlier: LineTime) -> Duration {
        let us = self.0.saturating_sub(earlier.0);
        Duration::from_micros(us.try_into().unwrap_or_default())
    }

    /// The place of somebody of that seniority now.
    pub fn place(self, seniority: Seniority) -> Self {
        Self(self.0.saturating_sub(seniority.0))
    }
}

impl Add<Duration> for LineTime {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(us(time)))
    }
}

impl Sub<Duration> for LineTime {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(us(time)))
    }
}

/// How long somebody has waited, and what its priority is worth: the greater goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seniority(i64);

impl Seniority {
    /// That of a waiter of `priority` who has `waited` so long.
    pub fn new(waited: Duration, priority: Priority) -> Self {
        Self(us(waited).saturating_add(i64::from(priority.value()) * STEP_US))
    }

    /// That of the same waiter when it has waited for so much longer.
    pub fn after(self, longer: Duration) -> Self {
        Self(self.0.saturating_add(us(longer)))
    }
}

/// What the store's clock showed when the line was last written, and how far the line's time is from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) latest: LineTime,
    pub(super) skew_us: i64,
}

impl Clock {
    pub(super) fn starting(now: Timestamp) -> Self {
        Self {
            latest: LineTime::of(now),
            skew_us: 0,
        }
    }

    /// The line's time if the store's clock, which shows `now`, was not set since.
    pub(super) fn shown(self, now: Timestamp) -> LineTime {
        LineTime(now.as_microsecond().saturating_add(self.skew_us))
    }

    /// How it is when the store's clock shows `now`.
    pub(super) fn at(self, now: Timestamp) -> Self {
        let Self { latest, skew_us } = self;
        let shown = self.shown(now);
        let ahead = shown.0.saturating_sub(latest.0);
        if (-SET_BACK_US..=SET_AHEAD_US).contains(&ahead) {
            return Self {
                latest: latest.max(shown),
                skew_us,
            };
        }
        Self {
            latest,
            skew_us: skew_us.saturating_sub(ahead),
        }
    }
}

fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
