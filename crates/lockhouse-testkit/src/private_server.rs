//! A database server for one test, whose global settings the test may change.
//!
//! `scripts/services` starts it beside the servers that all tests share, and stops it. A run without the shared server
//! leaves this one out too.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sqlx::mysql::MySqlDatabaseError;
use tempfile::TempDir;

use crate::place::{Place, on_server, server_url};
use crate::statement::try_run;

/// A database server, stopped when this is dropped.
pub struct PrivateServer {
    name: &'static str,
    folder: TempDir,
    url: String,
}

impl PrivateServer {
    /// Starts the server that `scripts/services` calls `name`, such as `mysql`.
    pub fn start(name: &'static str) -> Option<Self> {
        let variable = format!("LOCKHOUSE_TEST_{}_URL", name.to_uppercase());
        server_url(&variable)?;
        let mut server = Self {
            name,
            folder: folder(),
            url: String::new(),
        };
        server.services(&["up", name]);
        let env = server.services(&["env"]);
        let url = env.trim().rsplit('=').next();
        url.unwrap().clone_into(&mut server.url);
        Some(server)
    }

    /// An empty database on the server.
    pub async fn place(&self) -> Place {
        on_server(&self.url).await
    }

    /// Runs each of `settings`. Skips settings that this server does not know.
    pub async fn set(&self, settings: &[&str]) {
        for setting in settings {
            let ran = try_run(&self.url, setting).await;
            assert!(
                ran.as_ref().map_or_else(is_unknown, |()| true),
                "{setting}: {ran:?}"
            );
        }
    }

    /// Kills the server (`kill -9`), and starts it again with the data that it has.
    pub fn kill_and_restart(&self) {
        self.signal("KILL");
        // PostgreSQL refuses to start while the process that wrote its lock file exists.
        let until = Instant::now() + Duration::from_secs(10);
        while try_signal(self.folder.path(), self.name, "0") {
            assert!(Instant::now() < until, "{} is still there", self.name);
            sleep(Duration::from_millis(10));
        }
        self.services(&["again", self.name]);
    }

    /// Kills a PostgreSQL server, and starts it again as a standby, which takes no writes.
    pub fn restart_as_standby(&self) {
        let signal = self
            .folder
            .path()
            .join(self.name)
            .join("data/standby.signal");
        std::fs::write(signal, "").unwrap();
        self.kill_and_restart();
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        self::signal(self.folder.path(), self.name, signal);
    }

    fn services(&self, arguments: &[&str]) -> String {
        services(self.folder.path(), arguments)
    }
}

/// A folder for the state of servers.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL runs as another user, who must be able to read the folder.
    let status = Command::new("chmod").arg("755").arg(folder.path()).status();
    assert!(status.unwrap().success());
    folder
}

/// Sends a signal, such as `STOP`, to the server `name` whose state is in `folder`.
pub(crate) fn signal(folder: &Path, name: &str, signal: &str) {
    assert!(try_signal(folder, name, signal));
}

/// Sends the signal. Returns whether the server exists.
fn try_signal(folder: &Path, name: &str, signal: &str) -> bool {
    let pid = std::fs::read_to_string(folder.join(name).join("pid")).unwrap();
    let mut kill = Command::new("kill");
    let sent = kill.args(["-s", signal, pid.trim()]).output().unwrap();
    sent.status.success()
}

/// The output of `scripts/services`, whose state is in `folder`.
pub(crate) fn services(folder: &Path, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
    let mut command = Command::new(script);
    command
        .args(arguments)
        .env("LOCKHOUSE_SERVICES_DIR", folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "scripts/services {arguments:?}: {said}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Whether the server says that it has no such setting.
fn is_unknown(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        Some(error) => error.number() == 1193,
        None => error.code().is_some_and(|code| code == "42704"),
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        down(self.folder.path());
    }
}

/// Stops the servers whose state is in `folder`.
pub(crate) fn down(folder: &Path) {
    let down = || services(folder, &["down"]);
    if std::thread::panicking() {
        // A second panic would hide the first.
        let _ = std::panic::catch_unwind(down);
    } else {
        down();
    }
}
