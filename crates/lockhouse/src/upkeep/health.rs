//! Whether the upkeep in this process runs, for logs, metrics and readiness.

use std::collections::BTreeMap;
use std::fmt;

use crate::Error;

/// The state of the upkeep in this process; see [`Lockhouse::upkeep_state`](crate::Lockhouse::upkeep_state).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::UpkeepState;
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// match lockhouse.upkeep_state() {
///     UpkeepState::Failing(why) => eprintln!("the upkeep fails: {why}"),
///     state => println!("the upkeep here: {state}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UpkeepState {
    /// This process does no upkeep.
    #[default]
    Off,
    /// This process does the upkeep.
    Working,
    /// Another process does the upkeep. This one takes over when that one stops.
    Standby,
    /// The upkeep should run here and fails, for this reason.
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

/// Whether this process leads, and the tasks whose last run failed, each with its error.
#[derive(Debug, Default)]
pub(crate) struct Health {
    role: UpkeepState,
    failed: BTreeMap<String, String>,
}

impl Health {
    pub(crate) fn state(&self) -> UpkeepState {
        match (&self.role, self.failed.iter().next()) {
            (UpkeepState::Working, Some((task, error))) => {
                UpkeepState::Failing(format!("no {task}: {error}"))
            }
            (role, _) => role.clone(),
        }
    }

    /// Records whether this process leads, and warns once if it cannot find out.
    pub(crate) fn takes_role(&mut self, role: UpkeepState) {
        if role == self.role {
            return;
        }
        if let UpkeepState::Failing(why) = &role {
            tracing::warn!(
                why,
                "the upkeep cannot run: stale requests are not ended, and old rows not deleted"
            );
        }
        if role != UpkeepState::Working {
            self.failed.clear();
        }
        self.role = role;
    }

    /// Records how a task ended.
    pub(crate) fn did(&mut self, task: &str, error: Option<Error>) {
        match error {
            Some(error) => self.failed.insert(task.to_owned(), error.to_string()),
            None => self.failed.remove(task),
        };
    }
}
