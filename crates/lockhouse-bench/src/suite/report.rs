//! The results.

use serde::{Deserialize, Serialize};

use super::footprint::Footprint;
use super::rows::Row;
use crate::machine::{Machine, median};
use crate::measured::Measured;

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
