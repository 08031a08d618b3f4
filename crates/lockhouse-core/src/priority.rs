//! Priorities of asks.

use std::fmt;
use std::time::Duration;

use crate::Invalid;

/// The least and the greatest priority are this far from 0.
pub const MAX_PRIORITY: i32 = 100;

/// The waiting time that one step of priority is worth. The checker, the simulation and the model of the line have a copy, so
/// that they check it: `lockhouse-lab/src/history/check/order.rs`, `lockhouse-testkit/src/simulation/turns.rs` and
/// `tests/properties/line/model.rs`. Entries in the store have places by it, so servers with different values disagree on the
/// order.
const STEP: Duration = Duration::from_secs(10);

/// The priority of an ask among waiters: −100 to 100, by default 0. Each step puts it ahead of
/// waiters that arrived up to ten seconds before it.
///
/// ```
/// use lockhouse_core::Priority;
///
/// assert!(Priority::new(10)? > Priority::default());
/// assert!(Priority::new(101).is_err());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(i32);

impl Priority {
    /// Checks that `priority` is in bounds.
    ///
    /// # Errors
    /// [`Invalid`] on `priority` if it is not −100 to 100.
    pub fn new(priority: impl Into<i128>) -> Result<Self, Invalid> {
        let priority = priority.into();
        i32::try_from(priority)
            .ok()
            .filter(|priority| (-MAX_PRIORITY..=MAX_PRIORITY).contains(priority))
            .map(Self)
            .ok_or_else(|| {
                let problem =
                    format!("is {priority}, it goes from -{MAX_PRIORITY} to {MAX_PRIORITY}");
                Invalid::new("priority", problem)
            })
    }

    /// The number.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// How far the priority moves a place to the front, in microseconds.
    pub(crate) fn worth_us(self) -> i64 {
        i64::from(self.0) * STEP.as_micros() as i64
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_go_from_minus_100_to_100() {
        assert_eq!(Priority::new(-100).unwrap().value(), -100);
        assert!(Priority::new(100).is_ok());
        let refused = Priority::new(101).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "priority is 101, it goes from -100 to 100"
        );
        assert!(Priority::new(i64::MIN).is_err());
    }
}
