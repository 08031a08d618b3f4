//! P8: a process that was stopped finds its hold lost at the first look.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use lockhouse::{Lockhouse, Timestamp};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::{SOON, ask, renewed};

on_each_store!(
    the_first_look_after_a_stop_past_the_ttl_says_lost,
    a_stop_within_the_margin_ends_with_lost_before_anybody_is_granted,
);

const TTL: Duration = Duration::from_secs(4);

/// From the docs: a hold counts as lost so long before the store could end it.
const MARGIN: Duration = Duration::from_millis(400);

/// A process that holds the only permit of `s`.
struct Holder {
    process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    async fn start(url: &str, lockhouse: &Lockhouse) -> Self {
        lockhouse.define("s", 1).await.unwrap();
        let ttl_ms = TTL.as_millis().to_string();
        let mut process = Command::new(env!("CARGO_BIN_EXE_holder"))
            .args([url, "s", "held", &ttl_ms])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut holder = Self {
            stdin: process.stdin.take().unwrap(),
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            process,
        };
        assert_eq!(holder.line().await, "held");
        holder
    }

    async fn line(&mut self) -> String {
        let line = timeout(SOON, self.lines.next_line()).await;
        line.expect("it says something").unwrap().unwrap()
    }

    /// Has it look when it next runs.
    async fn look(&mut self) {
        self.stdin.write_all(b"\n").await.unwrap();
    }

    async fn stop(&self) {
        self.signal("-STOP").await;
        let stat = format!("/proc/{}/stat", self.process.id().unwrap());
        let stopped = async {
            while !fs::read_to_string(&stat).unwrap().contains(") T ") {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, stopped).await.expect("it is stopped");
    }

    async fn go_on(&self) {
        self.signal("-CONT").await;
    }

    async fn signal(&self, signal: &str) {
        let pid = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await;
        assert!(sent.unwrap().success());
    }
}

/// Before it uses a resource that another holder has now.
async fn the_first_look_after_a_stop_past_the_ttl_says_lost(place: Place) {
    let other = place.client().await;
    let mut holder = Holder::start(place.url(), &other).await;
    renewed(&other, "held").await;
    holder.look().await;
    assert_eq!(holder.line().await, "held");

    holder.stop().await;
    other.acquire(ask("next"), SOON).await.unwrap();
    holder.look().await;
    holder.go_on().await;
    assert_eq!(holder.line().await, "lost");
    assert!(other.find("next").await.unwrap().is_live());
    place.clear().await;
}

/// The margin is there after a stop too: no renewal is tried on the last stretch, and nobody is
/// granted anything before the holder knows.
async fn a_stop_within_the_margin_ends_with_lost_before_anybody_is_granted(place: Place) {
    let other = place.client().await;
    let mut holder = Holder::start(place.url(), &other).await;
    renewed(&other, "held").await;
    holder.stop().await;
    let expires_at = other.find("held").await.unwrap().expires_at.unwrap();
    let lost_at = expires_at - MARGIN;
    while Timestamp::now() < lost_at {
        sleep(Duration::from_millis(1)).await;
    }
    holder.look().await;
    holder.go_on().await;
    assert_eq!(holder.line().await, "lost");
    let known_at = Timestamp::now();
    let (request, _) = other.acquire(ask("next"), SOON).await.unwrap();
    let margin = request.created_at.duration_since(known_at);
    assert!(margin.as_millis() > 0, "known only {margin:?} before");
    let held = other.find("held").await.unwrap();
    assert_eq!(held.expires_at, Some(expires_at), "it was not renewed");
    place.clear().await;
}
