//! A PostgreSQL server with two standbys for one test. The test may kill the primary and promote a standby.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::place::server_url;
use crate::private_server::{down, folder, services, signal};
use crate::statement::try_run;

/// The name of the cluster in `scripts/services`.
const NAME: &str = "postgres";

/// The database of the permits.
const DATABASE: &str = "lockhouse";

/// How long a standby may take to attach or to detach.
const PATIENCE: Duration = Duration::from_secs(60);

/// A primary, which is node 0 at first, and two standbys. They are stopped when this is dropped.
pub struct Replicated {
    folder: TempDir,
    /// Without a path.
    nodes: Vec<String>,
}

impl Replicated {
    /// Starts the three servers. A commit is answered once a standby has it on disk.
    pub async fn start() -> Option<Self> {
        server_url("LOCKHOUSE_TEST_POSTGRES_URL")?;
        let mut cluster = Self {
            folder: folder(),
            nodes: Vec::new(),
        };
        services(cluster.folder.path(), &["cluster", NAME]);
        let env = services(cluster.folder.path(), &["env"]);
        let urls = env.lines().filter_map(|line| line.rsplit_once('='));
        let nodes = urls.map(|(_, url)| url.trim_end_matches("/postgres").to_owned());
        cluster.nodes = nodes.collect();
        cluster
            .run(0, &[&format!("CREATE DATABASE {DATABASE}")])
            .await;
        Some(cluster)
    }

    /// The URL of the database, with the hosts of all nodes.
    pub fn url(&self) -> String {
        let hosts = self.nodes.iter().map(|node| node.rsplit('@').next());
        let hosts: Vec<_> = hosts.flatten().collect();
        format!("postgres://postgres@{}/{DATABASE}", hosts.join(","))
    }

    /// The URL of the database on one node.
    pub fn node(&self, nth: usize) -> String {
        format!("{}/{DATABASE}", self.nodes[nth])
    }

    /// From now on the primary answers commits that no standby has.
    pub async fn make_asynchronous(&self) {
        let off = "ALTER SYSTEM SET synchronous_standby_names=''";
        self.run(0, &[off, RELOAD]).await;
    }

    /// Waits until the standbys have all commits of the primary.
    pub async fn until_caught_up(&self) {
        let behind =
            "SELECT COUNT(*) FROM pg_stat_replication WHERE flush_lsn<pg_current_wal_lsn()";
        self.until(0, behind, 0).await;
    }

    /// From now on no standby gets the primary's commits.
    pub async fn cut_off_standbys(&self) {
        for nth in 1..self.nodes.len() {
            self.follow(nth, "").await;
        }
        let attached = "SELECT COUNT(*) FROM pg_stat_replication";
        self.until(0, attached, 0).await;
    }

    /// Kills the primary, node 0 (`kill -9`).
    pub fn kill_primary(&self) {
        signal(self.folder.path(), &format!("{NAME}-1"), "KILL");
    }

    /// Promotes the standby that has most of the primary's commits, and makes the other standby follow it. Returns the new
    /// primary.
    pub async fn promote(&self) -> usize {
        let received = "SELECT (pg_last_wal_receive_lsn()-'0/0')::bigint";
        let (first, second) = (self.ask(1, received).await, self.ask(2, received).await);
        let (new, other) = if first >= second { (1, 2) } else { (2, 1) };
        self.run(new, &["SELECT pg_promote()"]).await;
        let at = self.nodes[new].rsplit_once(':').map(|(_, port)| port);
        let port = at.expect("a node has a port");
        let conninfo = format!("host=127.0.0.1 port={port} user=postgres");
        self.follow(other, &conninfo).await;
        new
    }

    /// Makes a standby follow the primary at `conninfo`.
    async fn follow(&self, nth: usize, conninfo: &str) {
        let follow = format!("ALTER SYSTEM SET primary_conninfo='{conninfo}'");
        self.run(nth, &[&follow, RELOAD]).await;
    }

    async fn run(&self, nth: usize, statements: &[&str]) {
        let url = format!("{}/postgres", self.nodes[nth]);
        for statement in statements {
            try_run(&url, statement).await.unwrap();
        }
    }

    async fn ask(&self, nth: usize, query: &str) -> i64 {
        let url = format!("{}/postgres", self.nodes[nth]);
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let query = sqlx::query_scalar(query);
        query.fetch_one(&mut connection).await.unwrap()
    }

    async fn until(&self, nth: usize, query: &str, answer: i64) {
        let until = Instant::now() + PATIENCE;
        while self.ask(nth, query).await != answer {
            assert!(Instant::now() < until, "{query} is not {answer}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

const RELOAD: &str = "SELECT pg_reload_conf()";

impl Drop for Replicated {
    fn drop(&mut self) {
        down(self.folder.path());
    }
}
