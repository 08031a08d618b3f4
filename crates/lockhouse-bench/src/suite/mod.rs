//! The whole comparison: contests of Lockhouse with its yardsticks, what one server takes, and the
//! targets that all of it is held against.

mod contests;
mod footprint;
mod rows;
mod server;
mod side;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use url::Url;

use crate::Failed;
use crate::machine::{Machine, median};
use crate::measured::Measured;
use crate::progress::Progress;
use crate::shape::Shape;

use contests::Contest;
pub use footprint::Footprint;
pub use rows::{Row, Verdict};
pub use side::Place;
use side::Ready;

const HELD: u32 = 100_000;
const ENDED: u32 = 1_000_000;
const SEMAPHORES: usize = 10_000;

/// The addresses of the databases. Contests without their database are skipped.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Places {
    pub mysql: Option<String>,
    pub mariadb: Option<String>,
    pub postgres: Option<String>,
    pub redis: Option<String>,
    pub etcd: Option<String>,
    /// The program, for what is measured on a server process.
    pub lockhouse: Option<PathBuf>,
}

impl Places {
    /// Nothing that stays on this machine is encrypted: Redis and etcd speak plainly too.
    fn url(&self, place: Place) -> Result<String, Failed> {
        let url = match place {
            Place::MySql => &self.mysql,
            Place::MariaDb => &self.mariadb,
            Place::Postgres => &self.postgres,
            Place::Redis => &self.redis,
            Place::Etcd => &self.etcd,
            Place::Sqlite => return Ok("sqlite:".to_owned()),
        };
        let url = url.as_deref();
        let url = url.ok_or_else(|| format!("the URL of {place:?} was not given"))?;
        let mut url = Url::parse(url)?;
        if matches!(place, Place::MySql | Place::MariaDb) {
            url.set_query(Some("ssl-mode=disabled"));
        }
        Ok(url.into())
    }

    fn lockhouse(&self) -> Result<&Path, Failed> {
        let program = self.lockhouse.as_deref();
        Ok(program.ok_or("there is no lockhouse program to serve with")?)
    }
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Rounds of each contest.
    pub rounds: usize,
    /// The measured time of each, in milliseconds.
    pub time_ms: u64,
    /// The warm-up of each, in milliseconds.
    pub warm_up_ms: u64,
    /// Whether it is only to show that everything runs: everything is small, and nothing is judged.
    pub quick: bool,
}

impl Scale {
    /// The sizes of the published figures.
    pub fn full() -> Self {
        Self {
            rounds: 5,
            time_ms: 3_000,
            warm_up_ms: 1_000,
            quick: false,
        }
    }

    /// A few seconds in all.
    pub fn quick() -> Self {
        Self {
            rounds: 1,
            time_ms: 200,
            warm_up_ms: 50,
            quick: true,
        }
    }

    fn shape(&self, clients: usize) -> Shape {
        Shape {
            clients: if self.quick { clients.min(16) } else { clients },
            time_ms: self.time_ms,
            warm_up_ms: self.warm_up_ms,
            ..Shape::default()
        }
    }

    fn rows(&self, rows: u32) -> u32 {
        if self.quick { rows / 1_000 } else { rows }
    }

    fn semaphores(&self) -> usize {
        if self.quick { 100 } else { SEMAPHORES }
    }
}

/// All that was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Lockhouse's version.
    pub version: String,
    /// On what.
    pub machine: Machine,
    /// Whether it was only to show that everything runs.
    pub quick: bool,
    /// The contests.
    pub contests: Vec<Contested>,
    /// The resources of one server.
    pub footprint: Footprint,
    /// The targets.
    pub rows: Vec<Row>,
}

/// The result of a contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contested {
    /// The name by which rows find it.
    pub name: String,
    /// A description.
    pub about: String,
    /// The sides.
    pub sides: Vec<SideMeasured>,
}

/// The result of one side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideMeasured {
    /// The name by which rows find it.
    pub name: String,
    /// Each round.
    pub rounds: Vec<Measured>,
    /// Why there is not more.
    pub failed: Option<String>,
}

impl SideMeasured {
    /// The median over the rounds of what `of` says of each; none without rounds.
    pub fn median(&self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let values: Vec<_> = self.rounds.iter().map(of).collect();
        (!values.is_empty()).then(|| median(&values))
    }
}

impl Report {
    /// A side of a contest, by their names.
    pub fn side(&self, contest: &str, side: &str) -> Option<&SideMeasured> {
        let contest = self.contests.iter().find(|it| it.name == contest)?;
        contest.sides.iter().find(|it| it.name == side)
    }
}

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
        progress.say("what one server takes");
        report.footprint = footprint::measure(places, scale).await;
        for reason in &report.footprint.failed {
            progress.say(&format!("  something is left out: {reason}"));
        }
    }
    report.rows = rows::judge(&report);
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
