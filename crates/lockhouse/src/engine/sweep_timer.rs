//! When a process that acquires looks for lapsed requests on all semaphores.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often a process that acquires looks for lapsed requests on all semaphores.
const EVERY: Duration = Duration::from_secs(60);

/// The interval while it finds some.
const WHILE_THERE_IS_SOME: Duration = Duration::from_secs(1);

/// When to look next.
#[derive(Debug)]
pub(super) struct SweepTimer(Mutex<Instant>);

impl SweepTimer {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now() + EVERY))
    }

    /// Records that there are lapsed requests, so that the next look comes soon.
    pub(super) fn go_on(&self) {
        let mut next = self.next();
        *next = (*next).min(Instant::now() + WHILE_THERE_IS_SOME);
    }

    /// Whether it is time for a look. If so, the caller must do it.
    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut next = self.next();
        let is_due = *next <= now;
        if is_due {
            *next = now + EVERY;
        }
        is_due
    }

    fn next(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
