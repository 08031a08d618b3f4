//! The result of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::shape::Shape;

/// All that one run has shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The contender under load.
    pub contender: String,
    /// The shape of the load.
    pub shape: Shape,
    /// On which server.
    pub server: Server,
    /// How long it was measured; less than the shape says if it was broken off.
    pub seconds: f64,
    /// Acquires that were released within that time.
    pub pairs: u64,
    /// Pairs a second.
    pub rate: f64,
    /// How long acquires took.
    pub acquire: Latency,
    /// How long releases took.
    pub release: Latency,
    /// Errors that callers saw, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Errors that clients tried again by themselves, by kind.
    pub retries: BTreeMap<String, u64>,
    /// The work of the database, if it can be counted.
    pub work: Option<Work>,
    /// Pairs of the client that had the fewest, as a part of what each would have had.
    pub slowest_client: f64,
    /// For how long the only permit was idle, when it went to a client of another process.
    #[serde(default)]
    pub idle: Option<Latency>,
}

/// A database's server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Server {
    /// The server's version.
    pub version: String,
    /// The settings on which it depends whether what is committed survives.
    pub durability: BTreeMap<String, String>,
}

/// Percentiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub mean_us: f64,
}

/// Transactions that an engine in this process has asked of its store.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// How many.
    pub batches: u64,
    /// Commands in them.
    pub commands: u64,
    /// How long they took together, in seconds; they may go side by side.
    pub seconds: f64,
}

impl Work {
    /// The work since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            batches: self.batches - before.batches,
            commands: self.commands - before.commands,
            seconds: self.seconds - before.seconds,
        }
    }
}

/// How long things took, as they are measured.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    /// None yet.
    pub fn new() -> Self {
        // Three digits; it grows with the longest.
        Self(Histogram::new(3).expect("3 digits are within what a histogram can have"))
    }

    /// Takes note of one.
    pub fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // It fails only if it may not grow.
        let _ = self.0.record(ns);
    }

    /// Takes note of all that `other` has.
    pub fn add(&mut self, other: &Self) {
        // They can't differ in what they can hold: both grow.
        let _ = self.0.add(&other.0);
    }

    /// The percentiles of the times.
    pub fn latency(&self) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(self.0.value_at_quantile(quantile));
        Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(self.0.max()),
            mean_us: self.0.mean() / 1e3,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_that_was_noted() {
        let (mut some, mut others) = (Times::new(), Times::new());
        for ms in 1..=500 {
            some.record(Duration::from_millis(ms));
            others.record(Duration::from_millis(500 + ms));
        }
        some.add(&others);
        let latency = some.latency();
        let is_about = |us: f64, ms: f64| (us / 1e3 / ms - 1.0).abs() < 0.002;
        assert!(is_about(latency.p50_us, 500.0), "{latency:?}");
        assert!(is_about(latency.p90_us, 900.0), "{latency:?}");
        assert!(is_about(latency.p99_us, 990.0), "{latency:?}");
        assert!(is_about(latency.max_us, 1000.0), "{latency:?}");
        assert!(is_about(latency.mean_us, 500.5), "{latency:?}");
    }
}
