//! The tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::machine::median;
use crate::measured::{Latency, Measured};
use crate::print::{ms, number};
use crate::suite::{Contested, Footprint, Report, Row, SideMeasured};

/// All tables of `report`, in Markdown, around the picture called `plot`.
pub fn tables(report: &Report, plot: &str) -> String {
    let mut text = String::new();
    if report.quick {
        paragraph(
            &mut text,
            "**These are from a quick run, to see that it runs: they mean nothing.**",
        );
    }
    let machine = &report.machine;
    paragraph(
        &mut text,
        &format!(
            "Lockhouse {} on a machine of {} cores and {} GiB ({}), with the databases beside the \
             load. Its disk takes {:.0} µs to keep 4 KiB.",
            report.version,
            machine.cores,
            (machine.memory_mib + 512) / 1024,
            machine.system,
            machine.sync_us
        ),
    );
    servers(&mut text, report);
    heading(&mut text, "Targets");
    targets(&mut text, &report.rows);
    heading(&mut text, "One hot semaphore");
    paragraph(
        &mut text,
        &format!("![Pairs a second over clients]({plot})"),
    );
    for contested in &report.contests {
        contest(&mut text, contested);
    }
    footprint(&mut text, &report.footprint);
    text
}

fn servers(text: &mut String, report: &Report) {
    let sides = report.contests.iter().flat_map(|contest| &contest.sides);
    let rounds = sides.flat_map(|side| side.rounds.last());
    let found: BTreeMap<(&str, String), ()> = rounds
        .map(|round| {
            let settings = round.server.durability.iter();
            let settings = settings.map(|(name, value)| format!("`{name}={value}`"));
            let settings = settings.collect::<Vec<_>>().join(", ");
            ((round.server.version.as_str(), settings), ())
        })
        .collect();
    row(text, ["server", "durability"]);
    row(text, ["---"; 2]);
    for ((version, settings), ()) in &found {
        row(text, [version, settings.as_str()]);
    }
    text.push('\n');
}

fn targets(text: &mut String, rows: &[Row]) {
    row(text, ["what", "measured", "at least", "aim", ""]);
    row(text, ["---", "--:", "--:", "--:", "---"]);
    for target in rows {
        let sign = if target.more_is_better { "" } else { "≤ " };
        let or_dash = |value: Option<f64>, sign: &str| {
            value.map_or("–".to_owned(), |value| {
                format!("{sign}{}", number(value, &target.unit))
            })
        };
        row(
            text,
            [
                &target.what,
                &or_dash(target.value, ""),
                &or_dash(Some(target.at_least), sign),
                &or_dash(target.aim, sign),
                target.verdict.as_str(),
            ],
        );
    }
    text.push('\n');
}

fn contest(text: &mut String, contested: &Contested) {
    heading(text, &capital(&contested.about));
    row(
        text,
        [
            "",
            "pairs/s (least to most)",
            "acquire p50",
            "p90",
            "p99",
            "p99.9",
            "release p50",
            "p99",
            "commands a batch",
            "errors",
        ],
    );
    row(
        text,
        [
            "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:",
        ],
    );
    for side in &contested.sides {
        row(text, cells(side));
    }
    text.push('\n');
    switches(text, contested);
    for side in &contested.sides {
        if let Some(reason) = &side.failed {
            paragraph(text, &format!("{} was left out: {reason}.", side.name));
        }
    }
}

/// For how long the only permit was idle when it went to a client of another process.
fn switches(text: &mut String, contested: &Contested) {
    let mut rows = Vec::new();
    for side in &contested.sides {
        let idle: Vec<_> = side.rounds.iter().filter_map(|round| round.idle).collect();
        if !idle.is_empty() {
            let middle = |of: fn(&Latency) -> f64| {
                let all: Vec<_> = idle.iter().map(of).collect();
                ms(median(&all))
            };
            rows.push([
                name(side),
                middle(|idle| idle.p50_us),
                middle(|idle| idle.p90_us),
                middle(|idle| idle.p99_us),
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    row(
        text,
        [
            "idle from a release to the grant of a client of another process",
            "p50",
            "p90",
            "p99",
        ],
    );
    row(text, ["---", "--:", "--:", "--:"]);
    for cells in rows {
        row(text, cells);
    }
    text.push('\n');
}

fn name(side: &SideMeasured) -> String {
    let contender = side.rounds.first().map(|round| round.contender.clone());
    contender.unwrap_or_else(|| side.name.clone()) + &apart(side)
}

fn cells(side: &SideMeasured) -> [String; 10] {
    let time = |of: fn(&Measured) -> f64| side.median(of).map_or("–".to_owned(), ms);
    let rates = side.rounds.iter().map(|round| round.rate);
    let least = rates.clone().min_by(f64::total_cmp).unwrap_or_default();
    let most = rates.max_by(f64::total_cmp).unwrap_or_default();
    let rate = side
        .median(|round| round.rate)
        .map_or("–".to_owned(), |rate| {
            format!("{rate:.0} ({least:.0} to {most:.0})")
        });
    let a_batch = side.rounds.last().and_then(|round| round.work).map(|_| {
        side.median(|round| {
            let work = round.work.unwrap_or_default();
            work.commands as f64 / work.batches.max(1) as f64
        })
    });
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in side.rounds.iter().flat_map(|round| &round.errors) {
        *errors.entry(kind).or_default() += count;
    }
    let errors = errors.iter().map(|(kind, count)| format!("{count} {kind}"));
    let errors = errors.collect::<Vec<_>>().join(", ");
    [
        name(side),
        rate,
        time(|round| round.acquire.p50_us),
        time(|round| round.acquire.p90_us),
        time(|round| round.acquire.p99_us),
        time(|round| round.acquire.p999_us),
        time(|round| round.release.p50_us),
        time(|round| round.release.p99_us),
        a_batch
            .flatten()
            .map_or("–".to_owned(), |commands| format!("{commands:.1}")),
        if errors.is_empty() {
            "0".to_owned()
        } else {
            errors
        },
    ]
}

/// The part of a name that distinguishes sides with the same contender.
fn apart(side: &SideMeasured) -> String {
    let Some(shape) = side.rounds.first().map(|round| &round.shape) else {
        return String::new();
    };
    let mut apart = String::new();
    if shape.semaphores > 1 {
        let _ = write!(apart, ", {} semaphores", shape.semaphores);
    }
    if shape.held + shape.ended > 0 {
        let _ = write!(apart, ", {} held, {} ended", shape.held, shape.ended);
    }
    apart
}

fn footprint(text: &mut String, footprint: &Footprint) {
    if footprint.memory.is_none() && footprint.idle.is_none() {
        return;
    }
    heading(text, "The footprint of one server");
    if let Some(memory) = &footprint.memory {
        paragraph(
            text,
            &format!(
                "With {} requests held through it, asked for by {} clients at once: {:.0} MiB at \
                 most, {:.0} MiB when all were held, {:.0} MiB before.",
                memory.held,
                memory.clients,
                memory.most_mib,
                memory.at_last_mib,
                memory.at_first_mib
            ),
        );
    }
    if let Some(idle) = &footprint.idle {
        paragraph(
            text,
            &format!(
                "With {} semaphores and nobody who asks, swept every 10 s: {:.2} % of one core, \
                 over {:.0} s.",
                idle.semaphores, idle.percent, idle.seconds
            ),
        );
    }
}

fn heading(text: &mut String, heading: &str) {
    paragraph(text, &format!("### {heading}"));
}

fn paragraph(text: &mut String, paragraph: &str) {
    text.push_str(paragraph);
    text.push_str("\n\n");
}

fn row<const N: usize>(text: &mut String, cells: [impl AsRef<str>; N]) {
    text.push('|');
    for cell in cells {
        // A bar would end the cell.
        let cell = cell.as_ref().replace('|', "\\|");
        let _ = write!(text, " {cell} |");
    }
    text.push('\n');
}

fn capital(about: &str) -> String {
    let mut letters = about.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
