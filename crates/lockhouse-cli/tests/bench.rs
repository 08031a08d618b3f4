//! `lockhouse bench`.

#![allow(clippy::unwrap_used)]

mod house;

use house::{Done, House, until};
use nix::sys::signal::Signal;
use serde_json::Value;

const SHORT: [&str; 7] = [
    "bench",
    "--clients",
    "4",
    "--warm-up",
    "0.05",
    "--seconds",
    "0.5",
];

fn bench(house: &House, options: &[&str]) -> Value {
    house.json(&[&SHORT, options].concat())
}

fn semaphores(house: &House) -> Vec<Value> {
    let list = house.json(&["list"]);
    list["semaphores"].as_array().unwrap().clone()
}

#[test]
fn it_tells_how_fast_it_was_and_leaves_no_semaphore() {
    let house = House::on_a_store();
    house.text(&["create", "mine", "1"]);
    let measured = bench(&house, &["--semaphores", "3", "--each", "2", "--held", "5"]);
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert!(measured["acquire"]["p99_us"].as_f64().unwrap() > 0.0);
    assert!(measured["work"]["batches"].as_u64().unwrap() > 0);
    assert_eq!(measured["server"]["durability"]["synchronous"], "FULL");
    assert_eq!(measured["errors"], serde_json::json!({}));
    let left = semaphores(&house);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["name"], "mine");
    house.text(&["verify"]);
}

#[test]
fn it_measures_a_server_too() {
    let house = House::behind_a_server();
    let measured = bench(&house, &["--held", "3", "--ended", "3"]);
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert_eq!(semaphores(&house).len(), 0);
}

#[test]
fn people_get_lines() {
    let house = House::on_a_store();
    let text = house.text(&SHORT);
    for begin in [
        "rate",
        "acquire",
        "release",
        "database",
        "durability",
        "errors",
    ] {
        assert!(text.lines().any(|line| line.starts_with(begin)), "{text}");
    }
}

#[test]
fn a_signal_ends_it_early_and_what_was_measured_is_printed() {
    let house = House::on_a_store();
    let bench = [
        "-o",
        "json",
        "bench",
        "--clients",
        "2",
        "--warm-up",
        "0",
        "--seconds",
        "600",
    ];
    let bench = house.start(&bench);
    until("it is under way", || {
        let semaphores = semaphores(&house);
        semaphores.iter().any(|it| it["fence"].as_u64() > Some(20))
    });
    bench.signal(Signal::SIGINT);
    let Done { code, stdout, .. } = bench.end();
    assert_eq!(code, 0, "{stdout}");
    let measured: Value = serde_json::from_str(&stdout).unwrap();
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert!(measured["seconds"].as_f64().unwrap() < 600.0);
    assert_eq!(semaphores(&house).len(), 0);
}

#[test]
fn a_signal_while_it_prepares_leaves_nothing_behind() {
    let house = House::on_a_store();
    let bench = house.start(&["bench", "--held", "200000"]);
    until("it is under way", || {
        let semaphores = semaphores(&house);
        semaphores.iter().any(|it| it["in_use"].as_u64() > Some(0))
    });
    bench.signal(Signal::SIGINT);
    let Done { code, stdout, .. } = bench.end();
    assert_eq!((code, stdout.as_str()), (130, ""));
    assert_eq!(semaphores(&house).len(), 0);
    house.text(&["verify"]);
}

#[test]
fn a_load_that_can_not_be_is_a_matter_of_usage() {
    let house = House::on_a_store();
    let done = house.done(&["bench", "--each", "2"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.stderr.contains("--each is 2"), "{done:?}");
}
