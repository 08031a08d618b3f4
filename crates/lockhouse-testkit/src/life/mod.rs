//! Long runs over the whole life of permits, at the sizes that operators meet: killed holders, an owner of thousands of
//! requests that falls silent, a million ended requests, and a million held ones.
//!
//! Each run checks its invariants, and panics if one is broken. It reports each measurement beside its target. A person starts
//! `bin/life.rs`, which does the runs at full size. `tests/life.rs` does them at a small size with the other tests.

mod bulk;
pub mod elsewhere;
pub mod held;
pub mod killed;
pub mod listings;
pub mod past;
mod processes;
mod report;
pub mod roles;
pub mod silent;

use std::fmt::Display;
use std::time::{Duration, Instant};

pub use report::Report;

/// Prints progress to stderr.
pub(crate) fn say(what: impl Display) {
    println!("  … {what}");
}

/// How long `call` took.
pub(crate) async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let begun = Instant::now();
    let answer = call.await;
    (answer, begun.elapsed())
}

/// Durations to be sorted.
#[derive(Clone, Debug, Default)]
pub struct Durations(Vec<Duration>);

impl Durations {
    /// The duration that is not exceeded by `part` (0 to 1) of them.
    pub fn quantile(&self, part: f64) -> Duration {
        let last = self.0.len().saturating_sub(1) as f64;
        let at = (last * part).ceil() as usize;
        self.0.get(at).copied().unwrap_or_default()
    }

    /// The number of durations.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<Duration> for Durations {
    fn from_iter<I: IntoIterator<Item = Duration>>(all: I) -> Self {
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable();
        Self(all)
    }
}

/// A duration in milliseconds, short enough for a table.
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_them() {
        let all: Durations = (1..=100).rev().map(Duration::from_millis).collect();
        let quantile = |part| all.quantile(part).as_millis();
        assert_eq!(
            [quantile(0.0), quantile(0.5), quantile(0.99), quantile(1.0)],
            [1, 51, 100, 100]
        );
        assert_eq!(Durations::default().quantile(0.5), Duration::ZERO);
    }
}
