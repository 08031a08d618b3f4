//! Prints the results of runs for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::measured::{Latency, Measured, Work};

/// All of one run.
pub fn measured(measured: &Measured) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    let shape = &measured.shape;
    line("contender", measured.contender.clone());
    if !measured.server.version.is_empty() {
        line("on", measured.server.version.clone());
    }
    if !measured.server.durability.is_empty() {
        line("durability", pairs(&measured.server.durability));
    }
    line(
        "load",
        format!(
            "{} clients on {} semaphores, {} an ask, {} permits of each, held {} ms, {} ms apart; \
             {} held and {} ended before",
            shape.clients,
            shape.semaphores,
            shape.each,
            shape.count,
            shape.hold_ms,
            shape.pause_ms,
            shape.held,
            shape.ended
        ),
    );
    line(
        "rate",
        format!(
            "{:.0} pairs/s ({} in {:.2} s)",
            measured.rate, measured.pairs, measured.seconds
        ),
    );
    line("acquire", latency(&measured.acquire));
    line("release", latency(&measured.release));
    if let Some(idle) = &measured.idle {
        line(
            "idle",
            format!("{}, when it went to another process", latency(idle)),
        );
    }
    if let Some(work) = &measured.work {
        line("database", database(work, measured.seconds));
    }
    line(
        "slowest",
        format!(
            "the client with the fewest pairs had {:.0} % of the mean",
            measured.slowest_client * 100.0
        ),
    );
    line("errors", or_none(&measured.errors));
    if !measured.retries.is_empty() {
        line("tried again", pairs(&measured.retries));
    }
    text
}

fn latency(latency: &Latency) -> String {
    format!(
        "p50 {}   p90 {}   p99 {}   p99.9 {}   max {}",
        ms(latency.p50_us),
        ms(latency.p90_us),
        ms(latency.p99_us),
        ms(latency.p999_us),
        ms(latency.max_us)
    )
}

fn database(work: &Work, seconds: f64) -> String {
    let batches = work.batches.max(1) as f64;
    format!(
        "{:.0} batches/s, {:.1} commands a batch, {} a batch, {:.2} at once",
        work.batches as f64 / seconds,
        work.commands as f64 / batches,
        ms(work.seconds / batches * 1e6),
        work.seconds / seconds
    )
}

/// Milliseconds to three digits.
pub fn ms(us: f64) -> String {
    let ms = us / 1e3;
    match ms {
        ..10.0 => format!("{ms:.2} ms"),
        10.0..100.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.0} ms"),
    }
}

fn pairs<V: ToString>(values: &BTreeMap<String, V>) -> String {
    let pairs = values
        .iter()
        .map(|(name, value)| format!("{name} {}", value.to_string()));
    pairs.collect::<Vec<_>>().join(", ")
}

fn or_none(values: &BTreeMap<String, u64>) -> String {
    match values.is_empty() {
        true => "none".into(),
        false => pairs(values),
    }
}

/// All of a suite, shortly.
pub fn report(report: &crate::suite::Report) -> String {
    let mut text = String::new();
    for row in &report.rows {
        let value = row
            .value
            .map_or("-".to_owned(), |value| number(value, &row.unit));
        let sign = if row.more_is_better { "≥" } else { "≤" };
        let at_least = number(row.at_least, &row.unit);
        let aim = row
            .aim
            .map(|aim| format!(", aim {}", number(aim, &row.unit)));
        let _ = writeln!(
            text,
            "{value:>10}  {:<12}  {} ({sign} {at_least}{})",
            row.verdict.as_str(),
            row.what,
            aim.unwrap_or_default()
        );
    }
    text
}

/// A number to three digits or so, with its unit.
pub fn number(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}
