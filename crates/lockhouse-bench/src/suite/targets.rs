//! The targets, and whether the results reach them. A target is a ratio within one run, since times depend on the machine. It
//! is the median over the rounds of the ratio between two sides, which ran directly one after the other.

use super::report::Report;
use super::rows::{Row, Verdict};
use crate::machine::median;
use crate::measured::Measured;

/// A side of a contest.
type Of = (&'static str, &'static str);

pub(super) fn judge(report: &Report) -> Vec<Row> {
    let rate = |of: Of, to: Of| ratio(report, of, to, |measured| measured.rate);
    let p50 = |of: Of, to: Of| ratio(report, of, to, |measured| measured.acquire.p50_us);
    let of = |of: Of, what: fn(&Measured) -> f64| report.side(of.0, of.1)?.median(what);
    let memory = report.footprint.memory.map(|memory| memory.most_mib);
    let idle = report.footprint.idle.map(|idle| idle.percent);
    let rows = [
        more(
            "hot semaphore, 64 clients: rate against the article's",
            12.0,
            Some(25.0),
        )
        .is(rate(("hot-64", "lockhouse"), ("hot-64", "article"))),
        more(
            "hot semaphore, 512 clients: rate against the article's",
            30.0,
            Some(45.0),
        )
        .is(rate(("hot-512", "lockhouse"), ("hot-512", "article"))),
        more(
            "hot semaphore, 512 clients: rate against Redis without fsync",
            0.6,
            Some(1.0),
        )
        .is(rate(("hot-512", "lockhouse"), ("hot-512", "redis"))),
        less(
            "one client: p50 of acquire against the floor's",
            1.8,
            Some(1.4),
        )
        .is(p50(("hot-1", "lockhouse"), ("hot-1", "floor"))),
        more(
            "100,000 held and 1,000,000 ended: rate against empty",
            0.85,
            Some(0.95),
        )
        .is(rate(("flat", "full"), ("flat", "empty"))),
        more(
            "10,000 semaphores: rate against one hot semaphore's",
            0.5,
            Some(1.0),
        )
        .is(rate(("many", "many"), ("many", "one"))),
        less(
            "3 semaphores an ask, random orders: errors that callers saw",
            0.0,
            None,
        )
        .unit("")
        .is(errors(report)),
        more(
            "two servers on one hot semaphore: rate against one's",
            0.7,
            Some(1.0),
        )
        .is(rate(("two", "two"), ("two", "one"))),
        more(
            "over HTTP, 64 connections: rate against the article's direct",
            6.0,
            Some(12.0),
        )
        .is(rate(("hot-64", "http"), ("hot-64", "article"))),
        more(
            "PostgreSQL, 64 clients: rate against the article's there",
            5.0,
            Some(10.0),
        )
        .is(rate(
            ("postgres-64", "lockhouse"),
            ("postgres-64", "article"),
        )),
        more(
            "PostgreSQL, 512 clients: rate against the article's there",
            12.0,
            Some(25.0),
        )
        .is(rate(
            ("postgres-512", "lockhouse"),
            ("postgres-512", "article"),
        )),
        more(
            "SQLite, 64 clients: rate against one commit at a time",
            15.0,
            Some(40.0),
        )
        .is(rate(("sqlite-64", "lockhouse"), ("sqlite-64", "single"))),
        more(
            "capacity 64 with slots: rate against without",
            0.9,
            Some(1.0),
        )
        .is(rate(("slots", "slotted"), ("slots", "plain"))),
        noisy("MySQL", "").is(rate(("noisy-mysql", "with"), ("noisy-mysql", "without"))),
        noisy("MySQL", APART).is(rate(("noisy-mysql", "apart"), ("noisy-mysql", "without"))),
        noisy("PostgreSQL", "").is(rate(
            ("noisy-postgres", "with"),
            ("noisy-postgres", "without"),
        )),
        noisy("PostgreSQL", APART).is(rate(
            ("noisy-postgres", "apart"),
            ("noisy-postgres", "without"),
        )),
        noisy("SQLite", "").is(rate(("noisy-file", "with"), ("noisy-file", "without"))),
        noisy("SQLite", APART).is(rate(("noisy-file", "apart"), ("noisy-file", "without"))),
        shared("MySQL", 20, 0.85).is(rate(("line-mysql-20", "two"), ("line-mysql-20", "one"))),
        shared("MySQL", 1, 0.7).is(rate(("line-mysql-1", "two"), ("line-mysql-1", "one"))),
        shared("PostgreSQL", 20, 0.9).is(rate(
            ("line-postgres-20", "two"),
            ("line-postgres-20", "one"),
        )),
        shared("PostgreSQL", 1, 0.85)
            .is(rate(("line-postgres-1", "two"), ("line-postgres-1", "one"))),
        claimed("MySQL", 60.0).is(idle_at_a_switch(report, ("line-mysql-20", "two"))),
        claimed("PostgreSQL", 10.0).is(idle_at_a_switch(report, ("line-postgres-20", "two"))),
        less("64 clients: p99 of acquire against its p50", 4.0, None)
            .is(of(("hot-64", "lockhouse"), |measured| {
                measured.acquire.p99_us / measured.acquire.p50_us
            })),
        more(
            "64 clients: pairs of the slowest client against the mean",
            0.5,
            None,
        )
        .is(of(("hot-64", "lockhouse"), |measured| {
            measured.slowest_client
        })),
        less(
            "a server with 100,000 held through it by 512 clients: memory",
            120.0,
            Some(60.0),
        )
        .unit(" MiB")
        .is(memory),
        less(
            "an idle server with 10,000 semaphores: part of a core",
            1.0,
            None,
        )
        .unit(" %")
        .is(idle),
    ];
    let judged = rows.into_iter().map(|row| Row {
        verdict: verdict(&row, report.quick),
        ..row
    });
    judged.collect()
}

/// Errors of any kind, of one engine or of two; one that could not go on counts as one more.
fn errors(report: &Report) -> Option<f64> {
    let seen = |side| {
        let side = report.side("orders", side)?;
        let errors = side.rounds.iter().flat_map(|round| round.errors.values());
        let errors = errors.sum::<u64>() + u64::from(side.failed.is_some());
        (!side.rounds.is_empty()).then_some(errors as f64)
    };
    Some(seen("lockhouse")? + seen("two")?)
}

fn ratio(report: &Report, of: Of, to: Of, what: fn(&Measured) -> f64) -> Option<f64> {
    let of = report.side(of.0, of.1)?.rounds.iter().map(what);
    let to = report.side(to.0, to.1)?.rounds.iter().map(what);
    let ratios = of.zip(to).filter(|(_, to)| *to > 0.0);
    let ratios: Vec<_> = ratios.map(|(of, to)| of / to).collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

fn more(what: &str, at_least: f64, aim: Option<f64>) -> Row {
    Row {
        what: what.to_owned(),
        value: None,
        unit: "×".to_owned(),
        more_is_better: true,
        at_least,
        aim,
        verdict: Verdict::NotMeasured,
    }
}

/// Where the noisy customer is, if not with the others.
const APART: &str = " in another engine";

fn noisy(place: &str, apart: &str) -> Row {
    let what =
        format!("{place}, a customer with 1,000 waiters{apart}: rate of 99 others against without");
    more(&what, 0.9, Some(1.0))
}

fn shared(place: &str, hold_ms: u32, at_least: f64) -> Row {
    let what =
        format!("{place}, 16 clients in line, held {hold_ms} ms: rate of two servers against one");
    more(&what, at_least, None)
}

fn claimed(place: &str, most_ms: f64) -> Row {
    let what =
        format!("{place}, two servers in line: a permit is idle when it goes to the other, p50");
    less(&what, most_ms, None).unit(" ms")
}

/// In milliseconds.
fn idle_at_a_switch(report: &Report, (contest, side): Of) -> Option<f64> {
    let rounds = &report.side(contest, side)?.rounds;
    let idle = rounds.iter().filter_map(|round| round.idle);
    let idle: Vec<_> = idle.map(|idle| idle.p50_us / 1e3).collect();
    (!idle.is_empty()).then(|| median(&idle))
}

fn less(what: &str, at_most: f64, aim: Option<f64>) -> Row {
    Row {
        more_is_better: false,
        ..more(what, at_most, aim)
    }
}

impl Row {
    fn unit(self, unit: &str) -> Self {
        Self {
            unit: unit.to_owned(),
            ..self
        }
    }

    fn is(self, value: Option<f64>) -> Self {
        Self { value, ..self }
    }
}

fn verdict(row: &Row, quick: bool) -> Verdict {
    let Some(value) = row.value else {
        return Verdict::NotMeasured;
    };
    let holds = |target: f64| match row.more_is_better {
        true => value >= target,
        false => value <= target,
    };
    match () {
        () if quick => Verdict::NotJudged,
        () if holds(row.aim.unwrap_or(row.at_least)) => Verdict::Reached,
        () if holds(row.at_least) => Verdict::Enough,
        () => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_reached_enough_or_missed() {
        let row = |value| more("", 12.0, Some(25.0)).is(Some(value));
        assert_eq!(verdict(&row(25.0), false), Verdict::Reached);
        assert_eq!(verdict(&row(24.9), false), Verdict::Enough);
        assert_eq!(verdict(&row(11.9), false), Verdict::Missed);
        let row = |value| less("", 1.8, Some(1.4)).is(Some(value));
        assert_eq!(verdict(&row(1.4), false), Verdict::Reached);
        assert_eq!(verdict(&row(1.5), false), Verdict::Enough);
        assert_eq!(verdict(&row(1.9), false), Verdict::Missed);
        let none = less("", 0.0, None);
        assert_eq!(
            verdict(&none.clone().is(Some(0.0)), false),
            Verdict::Reached
        );
        assert_eq!(verdict(&none.clone().is(Some(1.0)), false), Verdict::Missed);
        assert_eq!(verdict(&none, false), Verdict::NotMeasured);
        assert_eq!(verdict(&none.is(Some(1.0)), true), Verdict::NotJudged);
    }
}
