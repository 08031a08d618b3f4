//! The private database server of a run, which the run may kill.
//!
//! `scripts/services` installs it and starts it the first time. After that this module starts it by the same command line:
//! under a clock that can be set, with fewer connections, and as a child process, whose end is noticed at once.

mod running;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_lab::clock::Clock;
use running::{command_line, family, owner_of, until_gone};
use tokio::time::{sleep, timeout};

use super::console::{Console, is_up};
use super::process::signal;

/// How long the server may take to start, after a kill and on a busy machine.
const START: Duration = Duration::from_secs(60);

/// How long a running server may take to answer.
const READY: Duration = Duration::from_secs(5);

/// How long the server may take to find that there is room on a disk that was full.
const ROOM_IS_FOUND: Duration = Duration::from_secs(75);

/// The user of the clients, without an administrator's rights.
pub(super) const USER: &str = "torture";

/// A database server.
pub(super) struct Server {
    store: String,
    scripts: PathBuf,
    folder: PathBuf,
    /// The URL of the server, for its administrator.
    admin_url: String,
    arguments: Vec<String>,
    owner: Option<(u32, u32)>,
    clock: Arc<Clock>,
    child: Option<Child>,
    /// How often the end of a fault had to start the server.
    pub(super) starts_at_heal: u64,
}

impl Server {
    /// Starts a new server. `folder` is for its state and data.
    pub(super) async fn start(
        store: &str,
        scripts: &Path,
        folder: &Path,
        clock: Arc<Clock>,
    ) -> Self {
        let mut server = Self {
            store: store.to_owned(),
            scripts: scripts.to_owned(),
            folder: folder.to_owned(),
            admin_url: String::new(),
            arguments: Vec::new(),
            owner: None,
            clock,
            child: None,
            starts_at_heal: 0,
        };
        server.services(&["up", store]);
        let id: u32 = server.state("pid").parse().unwrap();
        server.arguments = command_line(store, id);
        server.owner = owner_of(id);
        let port = server.state("port");
        server.admin_url = match store {
            "postgres" => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            "redis" | "valkey" => format!("redis://127.0.0.1:{port}/"),
            _ => format!("mysql://root@127.0.0.1:{port}/"),
        };
        signal(id, "KILL");
        until_gone(id).await;
        server.run();
        server.until_ready().await;
        server.make_user().await;
        server
    }

    /// The server's host and port.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.state("port"))
    }

    /// The URL for clients, through a proxy on `port` or directly.
    pub(super) fn url(&self, port: Option<u16>) -> String {
        let port = port.map_or_else(|| self.state("port"), |port| port.to_string());
        match &*self.store {
            "postgres" => format!("postgres://{USER}@127.0.0.1:{port}/lockhouse?sslmode=disable"),
            "redis" | "valkey" => format!("redis://127.0.0.1:{port}/"),
            _ => format!("mysql://{USER}@127.0.0.1:{port}/lockhouse?ssl-mode=disabled"),
        }
    }

    /// The URL of the database, for its administrator.
    pub(super) fn admin_url(&self) -> String {
        match &*self.store {
            "postgres" => format!("{}lockhouse", self.admin_url.trim_end_matches("postgres")),
            "redis" | "valkey" => self.admin_url.clone(),
            _ => format!("{}lockhouse", self.admin_url),
        }
    }

    pub(super) async fn admin(&self) -> Console {
        Console::connect(&self.admin_url()).await.unwrap()
    }

    /// Kills the server (`kill -9`).
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.each_process("KILL");
            let _ = child.wait();
        }
    }

    /// Stops the server as an operator would, and waits for its end.
    pub(super) async fn stop_well(&mut self) {
        let how = if self.store == "postgres" {
            "INT"
        } else {
            "TERM"
        };
        let Some(child) = &mut self.child else { return };
        signal(child.id(), how);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(20) {
                return self.kill();
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.child = None;
    }

    pub(super) fn pause(&self) {
        self.each_process("STOP");
    }

    pub(super) fn go_on(&self) {
        self.each_process("CONT");
    }

    /// Starts the server unless it runs, and waits until it takes queries, and also writes if the disk `was_full`. A server
    /// that runs and does not is killed first, as an operator would.
    pub(super) async fn bring_back(&mut self, was_full: bool) {
        let child = self.child.as_mut();
        let alive = child.is_some_and(|child| child.try_wait().unwrap().is_none());
        let ready = alive && timeout(READY, self.until_ready()).await.is_ok();
        if ready && (!was_full || self.writes().await) {
            return;
        }
        self.starts_at_heal += 1;
        self.kill();
        self.run();
        self.until_ready().await;
    }

    /// Whether the server has found that there is room on the disk again. MySQL and MariaDB look once a minute.
    async fn writes(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < ROOM_IS_FOUND {
            let left = ROOM_IS_FOUND.saturating_sub(begun.elapsed());
            let [make, remove] = match &*self.store {
                "redis" | "valkey" => ["SET room 1", "DEL room"],
                _ => [
                    "CREATE TABLE IF NOT EXISTS room (a INT)",
                    "DROP TABLE IF EXISTS room",
                ],
            };
            let writing = async {
                let mut admin = Console::connect(&self.admin_url()).await?;
                admin.run_within(left, make).await?;
                admin.run_within(left, remove).await
            };
            match writing.await {
                Ok(()) => return true,
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
        false
    }

    fn run(&mut self) {
        let log = fs::File::options()
            .append(true)
            .open(self.folder.join(&self.store).join("log"));
        let log = log.unwrap();
        let mut command = Command::new(&self.arguments[0]);
        command
            .args(&self.arguments[1..])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .envs(self.clock.environment());
        if let Some((user, group)) = self.owner.filter(|(user, _)| *user != 0) {
            command.uid(user).gid(group);
        }
        let child = command.spawn().unwrap();
        fs::write(
            self.folder.join(&self.store).join("pid"),
            child.id().to_string(),
        )
        .unwrap();
        self.child = Some(child);
    }

    async fn until_ready(&mut self) {
        let begun = Instant::now();
        while !is_up(&self.admin_url).await {
            let ended = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().unwrap());
            if ended.is_some() {
                // PostgreSQL does not start while one of its old processes lives.
                self.run();
            }
            assert!(
                begun.elapsed() < START,
                "{} does not start; see {:?}",
                self.store,
                self.folder
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn make_user(&self) {
        let statements: &[&str] = match &*self.store {
            "postgres" => &[
                "CREATE ROLE torture LOGIN",
                "CREATE DATABASE lockhouse OWNER torture",
            ],
            "redis" | "valkey" => &[],
            _ => &[
                "CREATE USER torture@'127.0.0.1'",
                "CREATE USER torture@localhost",
                "GRANT ALL ON lockhouse.* TO torture@'127.0.0.1'",
                "GRANT ALL ON lockhouse.* TO torture@localhost",
            ],
        };
        let mut sql = Console::connect(&self.admin_url).await.unwrap();
        for statement in statements {
            sql.run(statement).await.unwrap();
        }
    }

    fn each_process(&self, how: &str) {
        let Ok(parent) = self.state("pid").parse() else {
            return;
        };
        for id in family(parent) {
            let _ = Command::new("kill")
                .args(["-s", how, &id.to_string()])
                .output();
        }
    }

    fn state(&self, what: &str) -> String {
        let path = self.folder.join(&self.store).join(what);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn services(&self, arguments: &[&str]) {
        let mut command = Command::new(self.scripts.join("services"));
        command
            .args(arguments)
            .env("LOCKHOUSE_SERVICES_DIR", &self.folder);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "scripts/services {arguments:?}: {said}"
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            self.services(&["down"]);
        }
    }
}
