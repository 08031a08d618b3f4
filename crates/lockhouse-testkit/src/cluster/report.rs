//! The results of runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use lockhouse::Lockhouse;
use tokio::time::sleep;

use super::load::{SEMAPHORES, has_windows, is_at_work, node_of};
use super::nodes::{NODES, Nodes};
use crate::history::{Answer, Operation, Rows, check, overtaken};
use crate::linear::windows_with_losses;
use crate::{answers, rows};

/// How long nodes may take to have the same rows, once nobody asks for anything.
const LAG: Duration = Duration::from_secs(15);

/// Something that befell the cluster. Times are those of the history.
#[derive(Debug)]
pub(super) struct Incident {
    pub(super) what: String,
    /// How long it may take until somebody is served again, and from its end until all are.
    pub(super) bound: Duration,
    pub(super) begun: u64,
    pub(super) mended: u64,
    pub(super) came_back_in: Option<Duration>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Calls, and how many of them were not answered.
    pub operations: usize,
    pub(super) unanswered: usize,
    pub(super) grants: usize,
    pub(super) windows: usize,
    pub(super) windows_passed_over: usize,
    /// How many pairs of asks were decided and in order (P11).
    pub(super) in_turn: u64,
    pub(super) incidents: Vec<String>,
    /// The longest time from a fault until somebody was served, and from its end until all servers
    /// served.
    pub(super) longest: (Duration, Duration),
    /// The violations.
    pub violations: Vec<String>,
}

impl Outcome {
    pub(super) async fn of(
        nodes: &Nodes,
        history: Vec<Operation>,
        incidents: Vec<Incident>,
    ) -> Self {
        let granted =
            |operation: &&Operation| matches!(operation.answer, Answer::Granted { now: true, .. });
        let lost = |operation: &&Operation| operation.answer == Answer::Unknown;
        let mut outcome = Self {
            operations: history.len(),
            unanswered: history.iter().filter(lost).count(),
            grants: history.iter().filter(granted).count(),
            ..Self::default()
        };
        outcome.tell(&history, &incidents);
        let troubled = troubled(&history, &incidents);
        outcome.hold_against(nodes, &history, &troubled).await;
        outcome
    }

    fn tell(&mut self, history: &[Operation], incidents: &[Incident]) {
        for incident in incidents {
            let at_once = served(history, incident.begun).into_values().min();
            let by_all = served(history, incident.mended);
            let by_all = (by_all.len() == NODES).then(|| by_all.into_values().max());
            let (first, all) = (at_once.unwrap_or(Duration::MAX), by_all.flatten());
            let all = all.unwrap_or(Duration::MAX);
            self.longest.0 = self.longest.0.max(first);
            self.longest.1 = self.longest.1.max(all);
            if first.max(all) > incident.bound {
                self.violations.push(format!(
                    "{}: served after {first:.1?}, all servers {all:.1?} after its end, of {:?} at most",
                    incident.what, incident.bound
                ));
            }
            let back = incident.came_back_in;
            let back = back.map_or(String::new(), |back| format!(", back in {back:.1?}"));
            self.incidents.push(format!(
                "{}: served after {first:.1?}{back}, all servers served {all:.1?} after its end",
                incident.what
            ));
        }
    }

    /// A run without calls would break nothing, so it counts as failed.
    fn have_done_something(&mut self) {
        if self.grants == 0 || self.windows == 0 || self.in_turn == 0 {
            let (grants, windows, in_turn) = (self.grants, self.windows, self.in_turn);
            let what = format!(
                "nothing was shown, by {grants} grants, {in_turn} of them in order, and {windows} windows"
            );
            self.violations.push(what);
        }
    }

    /// The promises, by the history and the rows of each node, and `verify` on each.
    async fn hold_against(
        &mut self,
        nodes: &Nodes,
        history: &[Operation],
        troubled: &[(u64, u64)],
    ) {
        let all = alike(nodes).await;
        let broken = check(history, Some(&all[0]));
        self.violations
            .extend(broken.iter().map(ToString::to_string));
        let (overtaken, in_turn) = overtaken(history, troubled);
        self.in_turn = in_turn;
        self.violations
            .extend(overtaken.iter().map(ToString::to_string));
        self.violations.extend(answers::unexplained(history));
        for (name, _) in SEMAPHORES.into_iter().filter(|(name, _)| has_windows(name)) {
            let windows = windows_with_losses(history, name, &all[0]);
            self.windows += windows.linearizable;
            self.windows_passed_over += windows.passed_over;
            self.violations.extend(windows.said());
        }
        self.have_done_something();
        for (nth, rows) in all.iter().enumerate().skip(1) {
            if *rows != all[0] {
                self.violations
                    .push(format!("{} has other rows", nodes.name(nth)));
            }
        }
        for nth in nodes.writers().await {
            let lockhouse = Lockhouse::connect(nodes.url(nth)).await.unwrap();
            let findings = lockhouse.verify().await.unwrap();
            self.violations
                .extend(findings.iter().map(|finding| finding.text.clone()));
        }
        if !self.violations.is_empty() {
            self.keep(&nodes.kept(), history, &all);
        }
    }

    /// Leaves what there is to find out more by: the history, the rows of each node, and what is broken.
    fn keep(&self, folder: &Path, history: &[Operation], rows: &[Rows]) {
        let lines = |lines: &mut dyn Iterator<Item = String>| {
            let lines: Vec<_> = lines.collect();
            lines.join("\n")
        };
        let calls = lines(&mut history.iter().map(ToString::to_string));
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("history"), calls).unwrap();
        for (nth, rows) in (1..).zip(rows) {
            fs::write(folder.join(format!("rows-{nth}")), format!("{rows:#?}")).unwrap();
        }
        fs::write(folder.join("verdict"), self.violations.join("\n\n")).unwrap();
    }
}

/// When a server could not come for what was left to it: from a fault until all have served after its end.
fn troubled(history: &[Operation], incidents: &[Incident]) -> Vec<(u64, u64)> {
    let times = incidents.iter().map(|incident| {
        let by_all = served(history, incident.mended).into_values().max();
        let by_all = by_all.unwrap_or(incident.bound).as_micros() as u64;
        (incident.begun, incident.mended + by_all)
    });
    times.collect()
}

/// Whether all servers have served calls that were begun since `from`.
pub(super) fn all_serve(history: &[Operation], from: u64) -> bool {
    served(history, from).len() == NODES
}

/// How long after `from` each server served the first call that was begun since.
fn served(history: &[Operation], from: u64) -> BTreeMap<usize, Duration> {
    let mut first = BTreeMap::new();
    for operation in history {
        if operation.begun >= from && is_at_work(&operation.answer) {
            let after = Duration::from_micros(operation.ended - from);
            let earliest = first.entry(node_of(operation.client)).or_insert(after);
            *earliest = after.min(*earliest);
        }
    }
    first
}

/// The rows of all nodes, which may lag, and whose servers may be sweeping still, until they are alike.
async fn alike(nodes: &Nodes) -> Vec<Rows> {
    let from = Instant::now();
    loop {
        let mut all = Vec::new();
        for nth in 0..NODES {
            all.push(in_order(rows::read(&nodes.url(nth)).await));
        }
        if all.iter().all(|rows| *rows == all[0]) || from.elapsed() > LAG {
            return all;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// In one order, and without what the servers hold for themselves, which is in no history of clients.
fn in_order(mut rows: Rows) -> Rows {
    let is_own = |name: &str| name.starts_with("lockhouse:");
    rows.semaphores.retain(|row| !is_own(&row.name));
    rows.permits.retain(|row| !is_own(&row.semaphore));
    rows.semaphores.sort_unstable();
    rows.permits.sort_unstable();
    rows.capacity_changes.sort_unstable();
    rows
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for incident in &self.incidents {
            writeln!(f, "  {incident}")?;
        }
        writeln!(
            f,
            "  {} operations, {} grants, {} not answered, {} windows with an order, {} passed over",
            self.operations, self.grants, self.unanswered, self.windows, self.windows_passed_over
        )?;
        writeln!(f, "  {} pairs of asks in order", self.in_turn)?;
        writeln!(
            f,
            "  {} faults; served again within {:.1?}, by all servers within {:.1?} of the end",
            self.incidents.len(),
            self.longest.0,
            self.longest.1
        )?;
        for violation in self.violations.iter().take(20) {
            writeln!(f, "  BROKEN {violation}")?;
        }
        write!(f, "  {} violations", self.violations.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Asked, Call, Refused};

    const SECOND: u64 = 1_000_000;

    fn told(at: u64, client: u32) -> Operation {
        let asked = Asked {
            id: format!("w{client}-{at}"),
            permits: vec![("north".into(), 1)],
            owner: None,
            ttl_us: None,
            waits: false,
            priority: 0,
        };
        Operation {
            client,
            call: Call::Acquire(asked),
            begun: at,
            ended: at + 10_000,
            answer: Answer::Refused(Refused::Exhausted(vec!["north".into()])),
        }
    }

    fn violations(history: &[Operation]) -> usize {
        let incident = Incident {
            what: "kill -9 of node 1".into(),
            bound: Duration::from_secs(30),
            begun: 10 * SECOND,
            mended: 15 * SECOND,
            came_back_in: None,
        };
        let mut outcome = Outcome::default();
        outcome.tell(history, &[incident]);
        outcome.violations.len()
    }

    #[test]
    fn late_recovery_is_reported() {
        let all = [0, 1, 2];
        let soon = all.map(|client| told(20 * SECOND, client));
        assert_eq!(violations(&soon), 0);
        assert_eq!(violations(&soon[..2]), 1);
        let late = all.map(|client| told(46 * SECOND, client));
        assert_eq!(violations(&late), 1);
        let again = [&late[..], &[told(12 * SECOND, 1)]].concat();
        assert_eq!(violations(&again), 1);
    }

    #[test]
    fn a_run_without_calls_fails() {
        let mut outcome = Outcome::default();
        outcome.have_done_something();
        assert_eq!(outcome.violations.len(), 1);
        let mut outcome = Outcome {
            grants: 1,
            windows: 1,
            in_turn: 1,
            ..Outcome::default()
        };
        outcome.have_done_something();
        assert_eq!(outcome.violations, [""; 0]);
    }
}
