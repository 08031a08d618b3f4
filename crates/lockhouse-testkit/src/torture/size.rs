//! The size of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::cluster::Topology;
use super::faults::Fault;
use super::plan::Plan;
use crate::broken::{Flaw, UNLOCKED};

/// The store under test, and the size of the run.
#[derive(Clone, Debug)]
pub struct Size {
    /// One of [`STORES`](super::STORES), or the name of a [`Topology`].
    pub store: String,
    /// Those that the store can't have are left out.
    pub faults: Vec<Fault>,
    /// How many things each client does at once.
    pub tasks: u32,
    /// How long a client rests at most after each thing that it does, or longer where calls are slow; 0 for no rest. It never
    /// rests in the line of all processes.
    pub rest: Duration,
    /// For how long all is well between faults, at most.
    pub calm: Duration,
    /// For how long faults are begun.
    pub duration: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// A folder for data and notes; on a separate file system if disks are to be full.
    pub folder: PathBuf,
    /// Whether the folder may be filled to the brim.
    pub fill: bool,
    /// The folder of `scripts/services`.
    pub scripts: PathBuf,
    /// Clients and servers do without the store's locks, to test that the run detects it.
    pub without_locks: bool,
    /// Clients and servers break the store in this way, to test that the run detects it.
    pub flaw: Option<Flaw>,
    /// Mends a fault only when all should have been at work again, to test that the run detects it.
    pub mends_late: bool,
    /// After how many rounds the history is checked.
    pub rounds: usize,
    /// Ends it when each fault has come once, and each check has decided something.
    pub once: bool,
    /// Ends it at the first segment that broke a promise.
    pub until_broken: bool,
    /// Whether it says all the while how it gets on.
    pub says: bool,
}

impl Size {
    /// The plan of faults.
    pub fn plan(&self) -> Plan {
        let plan = Plan::new(self.seed, &self.possible()).calm_up_to(self.calm);
        match self.store.as_str() {
            // PostgreSQL measures by the time of day how long a session does nothing. So a process that
            // freezes in a transaction keeps its locks for as long as the clock is set back then.
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
