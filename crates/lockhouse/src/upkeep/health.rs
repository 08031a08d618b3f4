//! Whether the upkeep in this process runs, for logs, metrics and readiness.

use std::collections::BTreeMap;
use std::fmt;

use crate::Error;

/// How the upkeep in this process goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UpkeepState {
    /// This process does none.
    #[default]
    Off,
    /// This process does it.
    Working,
    /// Another process does it. This one goes on when that one stops.
    Standby,
    /// It should run here, and can't; why.
    Failing(String),
}

impl fmt::Display for UpkeepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpkeepState::Off => f.write_str("off"),
            UpkeepState::Working => f.write_str("working"),
            UpkeepState::Standby => f.write_str("standby"),
            UpkeepState::Failing(why) => write!(f, "failing: {why}"),
        }
    }
}

/// The turn, and the tasks that failed when they were last tried.
#[derive(Debug, Default)]
pub(crate) struct Health {
    turn: UpkeepState,
    failed: BTreeMap<&'static str, String>,
}

impl Health {
    pub(crate) fn state(&self) -> UpkeepState {
        match (&self.turn, self.failed.iter().next()) {
            (UpkeepState::Working, Some((task, error))) => {
                UpkeepState::Failing(format!("no {task}: {error}"))
            }
            (turn, _) => turn.clone(),
        }
    }

    /// Notes who has the turn, and warns once when nobody can have it.
    pub(crate) fn turn(&mut self, turn: UpkeepState) {
        if turn == self.turn {
            return;
        }
        if let UpkeepState::Failing(why) = &turn {
            tracing::warn!(why, "the upkeep can't run: what has expired is not ended");
        }
        if turn != UpkeepState::Working {
            self.failed.clear();
        }
        self.turn = turn;
    }

    /// Notes how a task ended.
    pub(crate) fn did(&mut self, task: &'static str, error: Option<Error>) {
        match error {
            Some(error) => self.failed.insert(task, error.to_string()),
            None => self.failed.remove(task),
        };
    }
}
