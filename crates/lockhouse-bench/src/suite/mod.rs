//! The whole comparison: contests between Lockhouse and other systems, the resources of one server, and the targets with
//! which the results are compared.

mod contests;
mod footprint;
mod places;
mod report;
mod rows;
mod scale;
mod server;
mod side;
mod targets;

use tokio::sync::watch;

use crate::Failed;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::progress::Progress;
use contests::Contest;
pub use footprint::Footprint;
pub use places::{Place, Places};
pub use report::{Contested, Report, SideMeasured};
pub use rows::{Row, Verdict};
pub use scale::Scale;
use side::Ready;

/// Runs the contests whose names have one of `only` in them, or all, and judges. Once `stop` says so it
/// ends soon, with what it has.
///
/// # Errors
/// If the machine cannot be examined. The report has all other errors in their places.
pub async fn run(
    places: &Places,
    scale: &Scale,
    only: &[String],
    progress: &dyn Progress,
    stop: &watch::Receiver<bool>,
) -> Result<Report, Failed> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|text| name.contains(text));
    let folder = tempfile::tempdir()?;
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine::this(folder.path())?,
        quick: scale.quick,
        contests: Vec::new(),
        footprint: Footprint::default(),
        rows: Vec::new(),
    };
    for contest in contests::all(scale) {
        if is_wanted(contest.name) && !*stop.borrow() {
            let contested = contend(&contest, places, scale, progress, stop).await;
            report.contests.push(contested);
        }
    }
    if is_wanted(footprint::NAME) && !*stop.borrow() {
        progress.say("the footprint of one server");
        report.footprint = footprint::measure(places, scale).await;
        for reason in &report.footprint.failed {
            progress.say(&format!("  something is left out: {reason}"));
        }
    }
    report.rows = targets::judge(&report);
    Ok(report)
}

async fn contend(
    contest: &Contest,
    places: &Places,
    scale: &Scale,
    progress: &dyn Progress,
    stop: &watch::Receiver<bool>,
) -> Contested {
    progress.say(contest.about);
    let mut contested = Contested {
        name: contest.name.to_owned(),
        about: contest.about.to_owned(),
        sides: Vec::new(),
    };
    let mut kept: Vec<Option<Ready>> = Vec::new();
    for side in &contest.sides {
        contested.sides.push(SideMeasured {
            name: side.name.to_owned(),
            rounds: Vec::new(),
            failed: None,
        });
        kept.push(None);
    }
    let sides = contest.sides.len();
    for round in 0..scale.rounds {
        // Each is first in turn.
        for i in (0..sides).map(|i| (i + round) % sides) {
            let measured = &mut contested.sides[i];
            if measured.failed.is_some() || *stop.borrow() {
                continue;
            }
            let side = &contest.sides[i];
            let done = match kept[i].take() {
                Some(ready) => Ok(ready),
                None => Ready::make(side, places).await,
            };
            let done = match done {
                Ok(ready) => once(ready, side.is_kept(), &mut kept[i], progress, stop).await,
                Err(error) => Err(error),
            };
            match done {
                // Broken off, it says nothing.
                Ok(_) if *stop.borrow() => {}
                Ok(round) => {
                    progress.round(side.name, &round);
                    measured.rounds.push(round);
                }
                Err(error) => {
                    progress.say(&format!("{} is left out: {error}", side.name));
                    measured.failed = Some(error.to_string());
                }
            }
        }
    }
    for ready in kept.into_iter().flatten() {
        if let Err(error) = ready.clear().await {
            progress.say(&format!("clearing up failed: {error}"));
        }
    }
    contested
}

async fn once(
    ready: Ready,
    keep: bool,
    kept: &mut Option<Ready>,
    progress: &dyn Progress,
    stop: &watch::Receiver<bool>,
) -> Result<Measured, Failed> {
    let measured = ready.round(progress, stop).await;
    if keep && measured.is_ok() {
        *kept = Some(ready);
    } else {
        ready.clear().await?;
    }
    measured
}
