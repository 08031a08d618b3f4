//! Processes of the runs: each is the `life` program once more, doing one small thing.

use std::io::BufRead as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use lockhouse::{Lockhouse, Permit};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::soak;

/// How long a process may take to say its next line.
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

    /// The next line that it says.
    pub(super) async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a process says nothing").unwrap();
        line.expect("a process ended that should go on")
    }

    /// SIGKILL, without waiting for its end.
    pub(super) fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// Lets it end by itself; whether it ended well, and the last line that it said.
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

/// The main function of such a process.
pub async fn main(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["hold", url, semaphore, prefix, count, ttl_ms] => {
            hold(url, semaphore, prefix, count, ttl_ms).await;
        }
        ["wait", url, semaphore, prefix, count] => wait(url, semaphore, prefix, count).await,
        ["live", url, prefix, seed] => soak::live(url, prefix, seed.parse().unwrap()).await,
        _ => panic!("no process does {arguments:?}"),
    }
}

/// Holds `count` permits until it is killed.
async fn hold(url: &str, semaphore: &str, prefix: &str, count: &str, ttl_ms: &str) {
    let lockhouse = Lockhouse::connect(url).await.unwrap();
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    let ask = |i| {
        let ask = lockhouse.request_with_id(format!("{prefix}-{i}"));
        ask.permits(semaphore, 1).ttl(ttl).acquire()
    };
    let count: u32 = count.parse().unwrap();
    let held = try_join_all((0..count).map(ask)).await.unwrap();
    println!("held");
    let lost = join_all(held.iter().map(Permit::lost)).await;
    panic!("{prefix} lost {lost:?}");
}

/// Waits for `count` permits, and holds them until stdin ends.
async fn wait(url: &str, semaphore: &str, prefix: &str, count: &str) {
    let lockhouse = Lockhouse::connect(url).await.unwrap();
    println!("waiting");
    let mut waiting = JoinSet::new();
    for i in 0..count.parse::<u32>().unwrap() {
        let id = format!("{prefix}-{i}");
        let ask = lockhouse
            .request_with_id(id)
            .permits(semaphore, 1)
            .acquire();
        waiting.spawn(ask);
    }
    let mut held = Vec::new();
    while let Some(permit) = waiting.join_next().await {
        held.push(permit.unwrap().unwrap());
        println!("served");
    }
    until_stdin_ends().await;
    for permit in held {
        permit.release().await.unwrap();
    }
}

pub(super) async fn until_stdin_ends() {
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().count());
    reading.await.unwrap();
}
