//! The three nodes of a cluster that `scripts/services` has started.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use sqlx::{Connection, MySqlConnection};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::database::Database;
use crate::torture::topology::Topology;

/// The number of nodes.
pub(crate) const NODES: usize = 3;

/// The database of the permits.
pub(super) const DATABASE: &str = "lockhouse";

/// How long a node may take to come back. It copies the data if it was away for long.
const COMES_BACK: Duration = Duration::from_secs(120);

/// How long nodes may take to see each other again, before an unseen node is restarted.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

/// The nodes, and the script that runs them.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub(super) topology: Topology,
    script: PathBuf,
    state: PathBuf,
}

impl Nodes {
    /// The nodes that `script`, which is `scripts/services`, has started. Their state is in `LOCKHOUSE_SERVICES_DIR`.
    pub(super) fn of(topology: Topology, script: PathBuf) -> Self {
        let state = std::env::var_os("LOCKHOUSE_SERVICES_DIR");
        let state = state.expect("LOCKHOUSE_SERVICES_DIR says whose nodes may be killed");
        Self {
            topology,
            script,
            state: state.into(),
        }
    }

    /// The name of the nth node.
    pub(super) fn name(&self, nth: usize) -> String {
        format!("{}-{}", self.topology.name(), nth + 1)
    }

    /// The port of the nth node.
    pub(super) fn port(&self, nth: usize) -> u16 {
        self.recorded(nth, "port")
    }

    /// The URL of the nth node, without a database.
    pub(super) fn server(&self, nth: usize) -> String {
        format!("mysql://root@127.0.0.1:{}/", self.port(nth))
    }

    /// The URL of the nth node's database of permits.
    pub(super) fn url(&self, nth: usize) -> String {
        format!("{}{DATABASE}", self.server(nth))
    }

    /// Sends a signal to the nth node, as `kill` names it.
    pub(super) async fn signal(&self, nth: usize, signal: &str) {
        let pid: u32 = self.recorded(nth, "pid");
        let mut kill = Command::new("kill");
        let sent = kill.args([format!("-{signal}"), pid.to_string()]).status();
        assert!(sent.await.unwrap().success());
    }

    /// Starts the nth node again, and waits until it is a member.
    pub(super) async fn bring_back(&self, nth: usize) {
        let mut script = Command::new(&self.script);
        let back = script.args(["again", &self.name(nth)]).output();
        let back = timeout(COMES_BACK, back).await.expect("a node comes back");
        let back = back.unwrap();
        let told = String::from_utf8_lossy(&back.stderr);
        assert!(back.status.success(), "{told}");
    }

    /// Makes the nth node refuse writes, while others take them. If there is one writer, the next node becomes the writer.
    pub(super) async fn refuse_writes(&self, nth: usize) {
        let next = (nth + 1) % NODES;
        match self.topology {
            Topology::MultiPrimary => self.run(nth, "SET GLOBAL super_read_only=ON").await,
            Topology::Galera => self.run(nth, "SET GLOBAL wsrep_reject_queries=ALL").await,
            Topology::SinglePrimary => {
                let sql = "SELECT group_replication_set_as_primary(@@server_uuid)";
                self.run(next, sql).await;
            }
        }
    }

    /// Makes the nth node take writes again, unless another node is the writer now.
    pub(super) async fn take_writes(&self, nth: usize) {
        match self.topology {
            Topology::MultiPrimary => self.run(nth, "SET GLOBAL super_read_only=OFF").await,
            Topology::Galera => self.run(nth, "SET GLOBAL wsrep_reject_queries=NONE").await,
            Topology::SinglePrimary => {}
        }
    }

    async fn run(&self, nth: usize, sql: &str) {
        let mut database = Database::open(&self.server(nth)).await;
        let ran = timeout(COMES_BACK, database.run(sql)).await;
        ran.expect("a node runs the command");
    }

    /// Whether the nth node is a member that takes writes.
    async fn takes_writes(&self, nth: usize) -> bool {
        let sql = match self.topology {
            Topology::Galera => {
                "SELECT VARIABLE_VALUE='ON' FROM information_schema.GLOBAL_STATUS \
                 WHERE VARIABLE_NAME='wsrep_ready'"
            }
            _ => {
                "SELECT MEMBER_STATE='ONLINE' AND NOT @@super_read_only \
                 FROM performance_schema.replication_group_members WHERE MEMBER_ID=@@server_uuid"
            }
        };
        self.asked(nth, sql).await == Some(1)
    }

    /// How many members the nth node sees, if it answers. A stopped node learns late that it was expelled. Until then, the loss
    /// of another node would leave no majority.
    async fn sees(&self, nth: usize) -> Option<i64> {
        let sql = match self.topology {
            Topology::Galera => {
                "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS \
                 WHERE VARIABLE_NAME='wsrep_cluster_size'"
            }
            _ => {
                "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                 WHERE MEMBER_STATE='ONLINE'"
            }
        };
        self.asked(nth, sql).await
    }

    /// The answer of a node to a query, if there is one.
    async fn asked(&self, nth: usize, sql: &str) -> Option<i64> {
        let url = self.url(nth);
        let asked = async {
            let mut connection = MySqlConnection::connect(&url).await.ok()?;
            let found = sqlx::query_scalar(sql);
            found.fetch_optional(&mut connection).await.ok()?
        };
        timeout(Duration::from_secs(2), asked).await.ok()?
    }

    /// The nodes that take writes.
    pub(super) async fn writers(&self) -> Vec<usize> {
        let mut writers = Vec::new();
        for nth in 0..NODES {
            if self.takes_writes(nth).await {
                writers.push(nth);
            }
        }
        writers
    }

    /// The findings of `verify` at each writer.
    pub(super) async fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for nth in self.writers().await {
            let lockhouse = Lockhouse::connect(self.url(nth)).await.unwrap();
            let findings = lockhouse.verify().await.unwrap();
            found.extend(findings.into_iter().map(|finding| finding.text));
        }
        found
    }

    /// Waits until the right number of nodes take writes, and each sees all.
    ///
    /// A member of a group may take another for unreachable for good, after that was away for seconds, though all three work.
    /// An operator would have to mend that, so this kills the unseen node and starts it again. Returns whether it did.
    pub(super) async fn settled(&self) -> bool {
        let expected = match self.topology {
            Topology::SinglePrimary => 1,
            _ => NODES,
        };
        let (begun, mut was_mended) = (Instant::now(), false);
        loop {
            let (writers, seen) = (self.writers().await, self.seen().await);
            if writers.len() == expected && seen == [Some(NODES as i64); NODES] {
                return was_mended;
            }
            let late = begun.elapsed() >= COMES_BACK;
            assert!(
                !late,
                "the cluster does not settle: {writers:?} write, {seen:?} are seen"
            );
            if !was_mended
                && begun.elapsed() >= SEEN_WITHIN
                && let Some(nth) = self.unseen().await
            {
                was_mended = true;
                println!("{} is not seen by all, and is restarted", self.name(nth));
                self.signal(nth, "KILL").await;
                self.bring_back(nth).await;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// A node that another node does not see as a member.
    async fn unseen(&self) -> Option<usize> {
        let sql = "SELECT CAST(MEMBER_PORT AS SIGNED) FROM \
            performance_schema.replication_group_members WHERE MEMBER_STATE<>'ONLINE' LIMIT 1";
        for by in (0..NODES).filter(|_| self.topology != Topology::Galera) {
            if let Some(port) = self.asked(by, sql).await {
                return (0..NODES).find(|nth| i64::from(self.port(*nth)) == port);
            }
        }
        None
    }

    async fn seen(&self) -> Vec<Option<i64>> {
        let mut seen = Vec::new();
        for nth in 0..NODES {
            seen.push(self.sees(nth).await);
        }
        seen
    }

    fn recorded<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, nth: usize, what: &str) -> T {
        let file = self.state.join(self.name(nth)).join(what);
        let text = std::fs::read_to_string(&file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.trim().parse().unwrap()
    }
}
