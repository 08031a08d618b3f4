//! The size of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::faults::Fault;
use super::plan::Plan;
use super::topology::Topology;
use crate::broken::{Flaw, UNLOCKED};

/// The store under test, and the size of the run.
#[derive(Clone, Debug)]
pub struct Size {
    /// One of [`STORES`](super::STORES), or the name of a [`Topology`].
    pub store: String,
    /// The faults. Faults that the store can't have are left out.
    pub faults: Vec<Fault>,
    /// How many tasks each client runs at once.
    pub tasks: u32,
    /// How long a task rests at most after each action, or longer if calls are slow. 0 is no rest. A task that waits in the line
    /// of all processes never rests.
    pub rest: Duration,
    /// The longest time without faults between rounds.
    pub calm: Duration,
    /// How long new faults begin.
    pub duration: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// A folder for data and notes. It must be on a separate file system if the disk is to be filled.
    pub folder: PathBuf,
    /// Whether the folder's disk may be filled.
    pub fill: bool,
    /// The folder of `scripts/services`.
    pub scripts: PathBuf,
    /// Whether clients and servers use the store without its locks, to test that the run detects it.
    pub without_locks: bool,
    /// A flaw of the store, to test that the run detects it.
    pub flaw: Option<Flaw>,
    /// Whether faults end only after all processes should have worked again, to test that the run detects it.
    pub mends_late: bool,
    /// After how many rounds the history is checked.
    pub rounds: usize,
    /// Whether the run ends once each fault has happened, and each check has decided something.
    pub once: bool,
    /// Whether the run ends at the first segment that broke a promise.
    pub until_broken: bool,
    /// Whether the run prints its progress.
    pub says: bool,
}

impl Size {
    /// The plan of faults.
    pub fn plan(&self) -> Plan {
        let plan = Plan::new(self.seed, &self.possible()).calm_up_to(self.calm);
        match self.store.as_str() {
            // PostgreSQL measures the idle time of a session by the time of day. So a process that freezes in a transaction
            // keeps its locks for as long as the clock is set back.
            "postgres" => plan.apart(Fault::ClockDatabase),
            // Group Replication suspects a silent node after 5 s.
            store if Topology::named(store).is_some() => plan.on_a_cluster(2_000..=8_000),
            _ => plan,
        }
    }

    /// The prefix of the URLs of clients and servers.
    pub(super) fn broken(&self) -> &'static str {
        match self.flaw {
            Some(flaw) => flaw.prefix(),
            None if self.without_locks => UNLOCKED,
            None => "",
        }
    }

    /// The faults that the store can have.
    pub fn possible(&self) -> Vec<Fault> {
        let possible = |fault: &Fault| fault.left_out(&self.store).is_none();
        let has_disk = |fault: &Fault| self.fill || *fault != Fault::DiskFull;
        let faults = self.faults.iter().copied();
        faults.filter(possible).filter(has_disk).collect()
    }
}
