//! `lockhouse-bench run`, on a store and on a server of one's own.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use lockhouse_testkit::place::{self, Place};
use serde_json::Value;

const SHORT: [&str; 6] = ["--clients", "4", "--warm-up", "0.05", "--seconds", "0.5"];

fn run(place: &Place, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockhouse-bench"));
    command
        .args(["run", "-o", "json", "--url", place.url()])
        .args(options);
    command
}

async fn measured(place: &Place, options: &[&str]) -> Value {
    let mut run = run(place, &[&SHORT, options].concat());
    // The place's server may be in this thread.
    let output = tokio::task::spawn_blocking(move || run.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The names of the semaphores that there are, and how many permits are held.
async fn semaphores(lockhouse: &Lockhouse) -> Vec<(String, u32)> {
    let list = lockhouse.semaphores(None, 100).await.unwrap();
    let list = list.into_iter();
    list.map(|status| (status.semaphore.name.to_string(), status.semaphore.in_use))
        .collect()
}

#[tokio::test]
async fn it_tells_how_fast_it_was_and_leaves_no_semaphore() {
    let place = place::sqlite().await.unwrap();
    let lockhouse = place.client().await;
    lockhouse.define("mine", 1).await.unwrap();
    let measured = measured(&place, &["--semaphores", "3", "--each", "2", "--held", "5"]).await;
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert!(measured["acquire"]["p99_us"].as_f64().unwrap() > 0.0);
    assert!(measured["work"]["batches"].as_u64().unwrap() > 0);
    assert_eq!(measured["server"]["durability"]["synchronous"], "FULL");
    assert_eq!(measured["errors"], serde_json::json!({}));
    assert_eq!(semaphores(&lockhouse).await, [("mine".to_owned(), 0)]);
    assert!(lockhouse.verify().await.unwrap().is_empty());
}

#[tokio::test]
async fn it_measures_a_server_too() {
    let place = place::server().await.unwrap();
    let measured = measured(&place, &["--held", "3", "--ended", "3"]).await;
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert_eq!(semaphores(&place.client().await).await, []);
}

/// Interrupts a run with `options` when a semaphore has that many permits in use, or as many fences.
async fn interrupted(
    place: &Place,
    options: &[&str],
    is_under_way: fn(u32, u64) -> bool,
) -> (Option<i32>, String) {
    let lockhouse = place.client().await;
    let child = run(place, options).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    loop {
        let list = lockhouse.semaphores(None, 100).await.unwrap();
        let mut rows = list.iter().map(|status| &status.semaphore);
        if rows.any(|row| is_under_way(row.in_use, row.fence)) {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it does not begin"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(semaphores(&lockhouse).await, []);
    assert!(lockhouse.verify().await.unwrap().is_empty());
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[tokio::test]
async fn a_signal_ends_it_early_and_what_was_measured_is_printed() {
    let place = place::sqlite().await.unwrap();
    let options = ["--clients", "2", "--warm-up", "0", "--seconds", "600"];
    let (code, text) = interrupted(&place, &options, |_, fence| fence > 20).await;
    assert_eq!(code, Some(0), "{text}");
    let measured: Value = serde_json::from_str(&text).unwrap();
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert!(measured["seconds"].as_f64().unwrap() < 600.0);
}

#[tokio::test]
async fn a_signal_while_it_prepares_leaves_nothing_behind() {
    let place = place::sqlite().await.unwrap();
    let options = ["--held", "200000"];
    let (code, text) = interrupted(&place, &options, |in_use, _| in_use > 0).await;
    assert_eq!((code, text.as_str()), (Some(1), ""));
}
