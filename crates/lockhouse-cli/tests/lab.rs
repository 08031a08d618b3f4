//! `lockhouse lab`.

#![allow(clippy::unwrap_used)]

mod house;

use house::{Done, House, until};
use nix::sys::signal::Signal;
use rusqlite::Connection;

/// The tables of the lab that are there.
fn tables(house: &House) -> i64 {
    let connection = Connection::open(house.path("permits.db")).unwrap();
    let sql = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name LIKE '%_lab_%'";
    connection.query_row(sql, (), |row| row.get(0)).unwrap()
}

#[test]
fn what_is_written_by_hand_breaks_and_lockhouse_does_not() {
    let house = House::on_a_store();
    let chosen = [
        "lab",
        "--strategy",
        "unlocked-count",
        "--strategy",
        "lockhouse",
    ];
    let verdicts = house.json(&chosen);
    let [by_hand, lockhouse] = &verdicts["verdicts"].as_array().unwrap()[..] else {
        panic!("{verdicts}")
    };
    assert_eq!(by_hand["strategy"], "unlocked-count");
    assert_eq!(by_hand["broken"][0]["promise"], "P1");
    let shown = by_hand["broken"][0]["shown"].as_str().unwrap();
    assert!(shown.contains("3 of 2 are held"), "{shown}");
    assert_eq!(lockhouse["strategy"], "lockhouse");
    assert_eq!(lockhouse["broken"], serde_json::json!([]));
    assert_eq!(tables(&house), 0);
    let left = house.json(&["list"]);
    assert_eq!(left["semaphores"], serde_json::json!([]));
}

#[test]
fn people_get_a_table() {
    let house = House::on_a_store();
    let text = house.text(&["lab", "--strategy", "insert", "--strategy", "lockhouse"]);
    assert!(text.starts_with("STRATEGY"), "{text}");
    assert!(text.contains("P10: permits are gone for good"), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("lockhouse"), "{text}");
    assert!(
        last.contains("nothing") && last.contains("0 of 1"),
        "{text}"
    );
}

#[test]
fn a_signal_ends_it_and_leaves_no_table() {
    let house = House::on_a_store();
    let lab = house.start(&["lab", "--strategy", "insert-ttl", "--seconds", "600"]);
    until("it is under way", || tables(&house) > 0);
    lab.signal(Signal::SIGINT);
    let Done { code, .. } = lab.end();
    assert!(code == 0 || code == 130, "{code}");
    assert_eq!(tables(&house), 0);
}

#[test]
fn what_it_can_not_do_is_a_matter_of_usage() {
    let house = House::on_a_store();
    let done = house.done(&["lab", "--strategy", "one-statement"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.stderr.contains("unlocked-count"), "{done:?}");
    let done = house.done(&["--url", "memory:", "lab"]);
    assert_eq!(done.code, 64, "{done:?}");
}
