//! A process that a test stops and continues.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(20);

/// A process that reads lines and prints lines. Killed when this is dropped.
pub struct Stoppable {
    process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stoppable {
    /// Starts `program`.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            stdin: process.stdin.take().unwrap(),
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            process,
        }
    }

    /// The next line that it prints.
    pub async fn line(&mut self) -> String {
        let line = timeout(SOON, self.lines.next_line()).await;
        line.expect("it says something").unwrap().unwrap()
    }

    /// Sends an empty line, which the process reads once it runs.
    pub async fn enter(&mut self) {
        self.stdin.write_all(b"\n").await.unwrap();
    }

    /// Sends SIGSTOP. The process has stopped when this returns.
    pub async fn stop(&self) {
        self.signal("-STOP").await;
        let stat = format!("/proc/{}/stat", self.process.id().unwrap());
        let stopped = async {
            while !fs::read_to_string(&stat).unwrap().contains(") T ") {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, stopped).await.expect("it is stopped");
    }

    /// Sends SIGCONT.
    pub async fn go_on(&self) {
        self.signal("-CONT").await;
    }

    /// Sends SIGKILL. The process has ended when this returns.
    pub async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }

    async fn signal(&self, signal: &str) {
        let pid = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await;
        assert!(sent.unwrap().success());
    }
}
