//! A cluster of three nodes as the database of a run. `scripts/cluster-run` starts the nodes.
//!
//! Each node has a server. If one node is the writer, all servers reach it through a router. A fault of the database is a fault
//! of a node, or of the writer if there is one. At the end all nodes must have the same rows.

mod callers;
mod lab;
mod nodes;
mod router;

use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use tokio::time::sleep;

pub(super) use nodes::NODES;
use nodes::{DATABASE, Nodes};
use router::Router;

use super::faults::Fault;
use super::plan::Staged;
use super::size::Size;
use super::topology::Topology;
use crate::place::empty_database;
use crate::rows::{self, Rows};

/// How long nodes may take to have the same rows after the last call.
const LAG: Duration = Duration::from_secs(15);

/// The nodes, and the fault of one of them.
pub(super) struct Cluster {
    nodes: Nodes,
    router: Option<Router>,
    staged: Option<(Fault, usize)>,
    /// How often the end of a fault had to start a node.
    pub(super) starts_at_heal: u64,
}

impl Cluster {
    /// The nodes that `services` has started, with an empty database.
    pub(super) async fn of(topology: Topology, services: &Path) -> Self {
        let nodes = Nodes::of(topology, services.to_owned());
        nodes.settled().await;
        let writer = nodes.writers().await[0];
        empty_database(&nodes.server(writer), DATABASE).await;
        let router = match topology {
            Topology::SinglePrimary => Some(Router::before(nodes.clone()).await),
            _ => None,
        };
        let cluster = Self {
            nodes,
            router,
            staged: None,
            starts_at_heal: 0,
        };
        // The migration comes before the servers start, as a group does not order changes of one table by several nodes.
        let migrated = Lockhouse::connect(cluster.url(0)).await;
        drop(migrated.expect("the cluster takes writes"));
        cluster
    }

    /// The URL of the database for the nth server or client.
    pub(super) fn url(&self, nth: usize) -> String {
        match &self.router {
            Some(router) => router.url(),
            None => self.nodes.url(nth % NODES),
        }
    }

    /// How long it may take from the beginning of these faults until a caller is served again, and from their end until all
    /// processes work.
    ///
    /// Lockhouse itself needs some seconds: a call that hangs ends within 10 s, and a server that
    /// was killed connects again. The rest is the cluster's time. Group Replication suspects a
    /// member that is silent after 5 s, expels it after 5 s more, and then elects; a primary that
    /// is only stopped comes back, is expelled, and joins again: 29 s were measured. Galera takes 5
    /// to 15 s to declare a silent node dead, with no writes meanwhile, and a node that comes back
    /// may need a copy of the data: 27 s.
    pub(super) fn bound(&self, faults: &[Staged]) -> Duration {
        let is_of_a_node = faults.iter().any(|one| one.fault.is_of_the_database());
        let is_costly = is_of_a_node && self.nodes.topology != Topology::MultiPrimary;
        Duration::from_secs(if is_costly { 60 } else { 30 })
    }

    /// Begins the fault of a node, or of the writer if there is one.
    pub(super) async fn begin(&mut self, staged: &Staged) {
        let nth = match (self.nodes.topology, &self.nodes.writers().await[..]) {
            (Topology::SinglePrimary, [writer]) => *writer,
            _ => staged.whom % NODES,
        };
        match staged.fault {
            Fault::KillDatabase => self.nodes.signal(nth, "KILL").await,
            Fault::StopDatabase => self.nodes.signal(nth, "STOP").await,
            Fault::ReadOnly => self.nodes.refuse_writes(nth).await,
            other => unreachable!("{other} is not of a node"),
        }
        self.staged = Some((staged.fault, nth));
    }

    /// Ends the fault.
    pub(super) async fn mend(&mut self) {
        match self.staged.take() {
            Some((Fault::KillDatabase, nth)) => {
                self.nodes.bring_back(nth).await;
                self.starts_at_heal += 1;
            }
            Some((Fault::StopDatabase, nth)) => self.nodes.signal(nth, "CONT").await,
            Some((_, nth)) => self.nodes.take_writes(nth).await,
            None => {}
        }
    }

    /// Waits until the nodes are ready for the next fault. Returns whether a node had to be started for that.
    ///
    /// # Panics
    /// If the cluster does not come back by itself. No promise is about that.
    pub(super) async fn settled(&self) -> bool {
        self.nodes.settled().await
    }

    /// The first node's rows of the names that begin with `prefix`, and the differences of other nodes, in words. Nodes may lag,
    /// and servers may be sweeping, so this waits until all rows are alike.
    pub(super) async fn rows(&self, prefix: &str) -> (Rows, Vec<String>) {
        let from = Instant::now();
        loop {
            let first = rows::read_of(&self.nodes.url(0), prefix).await;
            let (expected, mut others) = (of_clients(&first), Vec::new());
            for nth in 1..NODES {
                let found = of_clients(&rows::read_of(&self.nodes.url(nth), prefix).await);
                if found != expected {
                    let name = self.nodes.name(nth);
                    let [lacks, adds] = [(&expected, &found), (&found, &expected)].map(only);
                    others.push(format!(
                        "{name} lacks the rows {lacks:#?} and has {adds:#?}"
                    ));
                }
            }
            if others.is_empty() || from.elapsed() > LAG {
                return (first, others);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Violations in the rows after all calls: the findings of `verify` at each writer, and the nodes whose rows differ from
    /// the first node's.
    pub(super) async fn findings(&self) -> Vec<String> {
        let (_, mut found) = self.rows("").await;
        found.extend(self.nodes.findings().await);
        found
    }
}

/// On a cluster with several writers, after a run: runs transactions of callers, and the lab. Returns the failures, in words.
///
/// # Panics
/// If a node refuses a command.
pub async fn try_several_writers(size: &Size) -> Vec<String> {
    let Some(topology) = Topology::named(&size.store) else {
        return Vec::new();
    };
    let nodes = Nodes::of(topology, size.scripts.join("services"));
    if nodes.writers().await.len() < NODES {
        return Vec::new();
    }
    let mut wrong = callers::callers(&nodes, size.seed).await;
    wrong.extend(lab::lab(&nodes, size.duration).await);
    wrong
}

/// The rows in one order, without the permits that servers hold for themselves, which are in no client's history.
fn of_clients(rows: &Rows) -> Vec<String> {
    let mut lines: Vec<_> = rows::lines(rows).collect();
    lines.retain(|line| !line.contains("\"lockhouse:"));
    lines.sort_unstable();
    lines
}

/// The members of `lines` that are not in `others`.
fn only<'a>((lines, others): (&'a Vec<String>, &Vec<String>)) -> Vec<&'a String> {
    let only = lines
        .iter()
        .filter(|line| others.binary_search(line).is_err());
    only.collect()
}
