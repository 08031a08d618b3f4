//! The processes of the runs. Each is the `life` program again, with one small task.

use std::io::BufRead as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long a process may take to print its next line.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that was started. Killed when dropped.
pub(super) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(super) fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .arg("process")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next line that it prints.
    pub(super) async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a process says nothing").unwrap();
        line.expect("a process ended that should go on")
    }

    /// SIGKILL, without waiting for its end.
    pub(super) fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// Waits for its end. Returns whether it succeeded, and the last line that it printed.
    pub(super) async fn end(mut self) -> (bool, String) {
        drop(self.child.stdin.take());
        let mut last = String::new();
        while let Some(line) = timeout(PATIENCE, self.lines.next_line())
            .await
            .expect("a process does not end")
            .unwrap()
        {
            last = line;
        }
        (self.child.wait().await.unwrap().success(), last)
    }
}

/// Waits until the run closes this process's stdin.
pub(super) async fn until_stdin_ends() {
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().count());
    reading.await.unwrap();
}
