//! The report of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lockhouse::EndReason;
use serde_json::{Value, json};

use super::faults::{ALL, Fault};
use super::verdict::Verdict;

/// The actions and findings of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The store.
    pub store: String,
    /// The server's version.
    pub version: String,
    /// The seed of the plan and of all random choices.
    pub seed: u64,
    /// How long the run took.
    pub took: Duration,
    /// How many operations were checked.
    pub operations: u64,
    /// Broken promises and other failures, in words.
    pub violations: Vec<String>,
    /// How many segments were checked.
    pub segments: u64,
    by_kind: BTreeMap<(&'static str, String), u64>,
    permits: u64,
    /// How many requests ended for each reason.
    ended: BTreeMap<String, u64>,
    /// How many requests of judged segments were purged.
    pub(super) purged: u64,
    /// How often rows were audited while clients worked.
    pub audits: u64,
    guesses: u64,
    windows: u64,
    windows_passed_over: u64,
    refusals: u64,
    in_turn: u64,
    faults: BTreeMap<String, Mended>,
    missed: BTreeMap<String, u64>,
    mixes: u64,
    slowest: Duration,
    /// The most time that any fault of the run allowed.
    slowest_allowed: Duration,
    /// On a cluster: the longest time from the beginning of a fault until a caller was served.
    served_again: Duration,
}

/// How often a fault was mended, and the longest time until all processes worked again.
#[derive(Debug, Default)]
struct Mended {
    times: u64,
    slowest: Duration,
    /// How often the database had to be started for that.
    starts: u64,
}

impl Report {
    pub(super) fn new(store: &str, version: String, seed: u64) -> Self {
        Self {
            store: store.to_owned(),
            version,
            seed,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, verdict: Verdict) {
        self.segments += 1;
        for (kind, count) in verdict.operations {
            self.operations += count;
            *self.by_kind.entry(kind).or_default() += count;
        }
        self.permits += verdict.permits;
        for (reason, count) in verdict.ended {
            *self.ended.entry(reason).or_default() += count;
        }
        self.guesses += verdict.guesses;
        self.windows += verdict.windows;
        self.windows_passed_over += verdict.windows_passed_over;
        self.refusals += verdict.refusals;
        self.in_turn += verdict.in_turn;
        self.served_again = self.served_again.max(verdict.served_again);
        self.violations.extend(verdict.violations);
    }

    /// Records that `faults`, which were active together, were mended: how often the database had to be started, and how long it
    /// took until all processes worked again, of `allowed` at most.
    pub(super) fn mended(
        &mut self,
        faults: &[Fault],
        starts: u64,
        (took, allowed): (Duration, Duration),
    ) {
        self.slowest_allowed = self.slowest_allowed.max(allowed);
        self.mixes += u64::from(faults.len() > 1);
        self.slowest = self.slowest.max(took);
        for fault in faults {
            let mended = self.faults.entry(fault.to_string()).or_default();
            mended.times += 1;
            mended.starts += starts;
            mended.slowest = mended.slowest.max(took);
        }
    }

    /// Records a planned fault that did not happen.
    pub(super) fn missed(&mut self, fault: Fault) {
        *self.missed.entry(fault.to_string()).or_default() += 1;
    }

    /// The number of faults.
    pub fn faults(&self) -> u64 {
        self.faults.values().map(|mended| mended.times).sum()
    }

    /// How often the fault happened.
    pub fn times(&self, fault: Fault) -> u64 {
        self.faults
            .get(&fault.to_string())
            .map_or(0, |mended| mended.times)
    }

    /// The checks that decided nothing, and the events that did not happen.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let ends = EndReason::ALL.map(EndReason::as_str);
        let ends = ends.map(|reason| (reason, self.ended.get(reason).copied().unwrap_or(0)));
        let counts = [
            ("windows", self.windows),
            ("refusals (P10)", self.refusals),
            ("pairs of asks (P11)", self.in_turn),
            ("purged", self.purged),
        ];
        let missing = counts.into_iter().chain(ends).filter(|(_, n)| *n == 0);
        missing.map(|(what, _)| what).collect()
    }

    /// Fails the run if a check decided nothing, no request was purged, or none ended for one of the reasons.
    pub(super) fn must_have_had_all(&mut self) {
        let missing = self.missing();
        if !missing.is_empty() {
            let what = format!("there were none of these: {}", missing.join(", "));
            self.violations.push(what);
        }
    }

    fn verdict(&self) -> &'static str {
        match self.violations[..] {
            [] => "nothing is broken",
            _ => "broken",
        }
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let mut operations = serde_json::Map::new();
        for ((kind, answer), count) in &self.by_kind {
            let kind = operations.entry(*kind).or_insert_with(|| json!({}));
            kind[answer] = json!(count);
        }
        let faults = self.faults.iter().map(|(fault, mended)| {
            let mended = json!({
                "times": mended.times,
                "database_started": mended.starts,
                "slowest_ms": mended.slowest.as_millis() as u64,
            });
            (fault.clone(), mended)
        });
        json!({
            "store": self.store,
            "version": self.version,
            "lockhouse": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "took_ms": self.took.as_millis() as u64,
            "operations": self.operations,
            "operations_by_kind": operations,
            "permits": self.permits,
            "permits_ended": self.ended,
            "requests_purged": self.purged,
            "audits": self.audits,
            "segments": self.segments,
            "releases_that_both_claim_an_end": self.guesses,
            "windows": self.windows,
            "windows_passed_over": self.windows_passed_over,
            "refusals_decided": self.refusals,
            "pairs_in_order": self.in_turn,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "faults_missed": self.missed,
            "mixes": self.mixes,
            "slowest_ms": self.slowest.as_millis() as u64,
            "served_again_ms": self.served_again.as_millis() as u64,
            "verdict": self.verdict(),
            "violations": self.violations,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.operations as f64 / self.took.as_secs_f64().max(0.001);
        writeln!(
            f,
            "\n{} {}, seed {}, {:.1} minutes",
            self.store,
            self.version,
            self.seed,
            self.took.as_secs_f64() / 60.0
        )?;
        writeln!(f, "  lockhouse {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(
            f,
            "\n  operations checked {:>26}   {rate:.0}/s",
            self.operations
        )?;
        for ((kind, answer), count) in &self.by_kind {
            writeln!(f, "    {kind:<18} {answer:<18} {count:>8}")?;
        }
        let (faults, mixes) = (self.faults(), self.mixes);
        writeln!(
            f,
            "\n  faults {faults}, of which some came together {mixes} times\n\
             \x20   {:<18} {:>9} {:>18} {:>22}",
            "", "times", "longest heal", "database started"
        )?;
        for (fault, _) in ALL {
            let fault = fault.to_string();
            if let Some(mended) = self.faults.get(&fault) {
                let Mended { times, starts, .. } = mended;
                let slowest = mended.slowest.as_secs_f64();
                writeln!(
                    f,
                    "    {fault:<22} {times:>5} {slowest:>16.1} s {starts:>22}"
                )?;
            }
        }
        for (fault, times) in &self.missed {
            writeln!(f, "    {fault:<22} {times:>5} times it did not come about")?;
        }
        writeln!(
            f,
            "    {:<28} {:>16.1} s, of {} s at most",
            "longest heal of all",
            self.slowest.as_secs_f64(),
            self.slowest_allowed.as_secs()
        )?;
        if self.served_again > Duration::ZERO {
            writeln!(
                f,
                "    {:<28} {:>16.1} s",
                "somebody was served within",
                self.served_again.as_secs_f64()
            )?;
        }
        let Self {
            segments,
            permits,
            ended,
            purged,
            audits,
            windows,
            windows_passed_over,
            refusals,
            in_turn,
            ..
        } = self;
        writeln!(
            f,
            "\n  segments checked {segments}, with {permits} rows of permits"
        )?;
        let ended = ended
            .iter()
            .map(|(reason, count)| format!(" {count} {reason}"));
        let ended: Vec<_> = ended.collect();
        writeln!(f, "  permits that ended:{}", ended.join(","))?;
        writeln!(
            f,
            "  requests purged meanwhile {purged}, audits of rows meanwhile {audits}"
        )?;
        writeln!(
            f,
            "  windows with an order {windows}, passed over {windows_passed_over}"
        )?;
        writeln!(
            f,
            "  refusals decided where permits come back by their time {refusals}"
        )?;
        writeln!(f, "  pairs of asks that were served in order {in_turn}")?;
        writeln!(
            f,
            "  releases asked again that claim an end which another claims {}",
            self.guesses
        )?;
        let violations = self.violations.len();
        writeln!(
            f,
            "\n  verdict: {}, {violations} violations",
            self.verdict()
        )?;
        for violation in &self.violations {
            writeln!(f, "\n{violation}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_calls_or_without_staleness_fails() {
        let mut report = Report::default();
        report.must_have_had_all();
        assert_eq!(report.violations.len(), 1);
        let ended = EndReason::ALL.map(|reason| (reason.as_str().to_owned(), 1));
        let mut report = Report {
            windows: 1,
            refusals: 1,
            in_turn: 1,
            purged: 1,
            ended: ended.into(),
            ..Report::default()
        };
        report.must_have_had_all();
        assert_eq!(report.violations, [""; 0]);
        report.ended.remove("stale");
        assert_eq!(report.missing(), ["stale"]);
    }
}
