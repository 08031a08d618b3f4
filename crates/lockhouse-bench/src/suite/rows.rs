//! The rows of the targets, each with its result.

use serde::{Deserialize, Serialize};

/// One target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The comparison.
    pub what: String,
    /// The ratio. `None` if it was not measured.
    pub value: Option<f64>,
    /// The unit that is printed after the value.
    pub unit: String,
    /// Whether it may not be less than the target, or not more.
    pub more_is_better: bool,
    /// The required minimum.
    pub at_least: f64,
    /// The target, if it differs.
    pub aim: Option<f64>,
    /// Whether the target is reached.
    pub verdict: Verdict,
}

/// Whether a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The target is reached.
    Reached,
    /// Enough.
    Enough,
    /// Not enough.
    Missed,
    /// Something that it takes was left out.
    NotMeasured,
    /// Everything was small, to show that it runs.
    NotJudged,
}

impl Verdict {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Enough => "enough",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
            Verdict::NotJudged => "not judged",
        }
    }
}
