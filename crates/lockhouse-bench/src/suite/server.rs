//! A `lockhouse serve` that the benchmark starts.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Failed;
use crate::machine::kib;

const READY_WITHIN: Duration = Duration::from_secs(20);

/// Ticks a second in /proc, on every Linux there is.
const TICKS: f64 = 100.0;

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `lockhouse`, the program, on the store of `url`, and waits until it listens.
    pub(super) async fn start(
        lockhouse: &Path,
        url: &str,
        options: &[&str],
    ) -> Result<Self, Failed> {
        let mut child = Command::new(lockhouse)
            .args(["serve", "--listen", "127.0.0.1:0", "--url", url])
            .args(options)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} can't be started: {error}", lockhouse.display()))?;
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        let mut line = String::new();
        let mut lines = BufReader::new(stdout);
        timeout(READY_WITHIN, lines.read_line(&mut line))
            .await
            .map_err(|_| "the server did not listen in time")??;
        let address = line
            .trim_end()
            .rsplit_once(" on ")
            .ok_or("the server ended before it listened")?;
        Ok(Self {
            url: address.1.to_owned(),
            child,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The most memory that it had at once, and what it has now, in MiB.
    pub(super) fn memory_mib(&self) -> Result<(f64, f64), Failed> {
        let status = self.proc("status")?;
        let mib = |name| kib(&status, name).map(|kib| kib as f64 / 1024.0);
        let both = mib("VmHWM:").zip(mib("VmRSS:"));
        Ok(both.ok_or("the system does not say how much memory a process has")?)
    }

    /// How many seconds of a core it has used.
    pub(super) fn cpu_seconds(&self) -> Result<f64, Failed> {
        let stat = self.proc("stat")?;
        // The name, in parentheses, may have spaces.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks = after.split_whitespace().skip(11).take(2);
        let ticks = ticks.map(str::parse::<f64>).sum::<Result<f64, _>>()?;
        Ok(ticks / TICKS)
    }

    fn proc(&self, file: &str) -> Result<String, Failed> {
        let pid = self.child.id().ok_or("the server has ended")?;
        Ok(std::fs::read_to_string(format!("/proc/{pid}/{file}"))
            .map_err(|error| format!("the system does not tell of processes: {error}"))?)
    }

    pub(super) async fn stop(mut self) -> Result<(), Failed> {
        Ok(self.child.kill().await?)
    }
}
