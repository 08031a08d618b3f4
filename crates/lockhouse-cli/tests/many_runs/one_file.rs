//! A hundred commands on one SQLite file.

use std::thread;
use std::time::Duration;

use crate::house::{House, Running};
use rusqlite::Connection;

/// A busy file is no reason to give up.
#[test]
fn a_hundred_runs_at_once_on_one_file_are_all_granted() {
    let house = House::on_a_store();
    house.text(&["create", "one", "1"]);
    let run = ["run", "-s", "one", "--", "true"];
    let runs: Vec<Running> = (0..100).map(|_| house.start(&run)).collect();
    for run in runs {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(house.in_use("one"), 0);
}

/// Longer than a call without a wait may take.
#[test]
fn a_run_waits_while_another_program_locks_the_file() {
    let house = House::on_a_store();
    house.text(&["create", "one", "1"]);
    let file = Connection::open(house.path("permits.db")).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = house.start(&["run", "-s", "one", "--", "true"]);
    thread::sleep(Duration::from_secs(12));
    file.execute_batch("COMMIT").unwrap();
    let done = run.end();
    assert_eq!(done.code, 0, "{done:?}");
}

/// P1, P10 and P11, seen from outside.
#[test]
fn twelve_runs_on_a_capacity_of_four_are_never_more_than_four_and_leave_nothing_held() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "4"]);
        let log = house.path("log");
        // One short line appended is one write, so they come in the order of what happened. The first ones wait for each
        // other, as a busy machine may start them long after each other.
        let script = format!(
            "echo + >> {0}; until [ $(grep -c + {0}) -ge 4 ]; do sleep 0.05; done; sleep 0.1; echo - >> {0}",
            log.to_str().unwrap()
        );
        let run = ["run", "-s", "a", "--", "sh", "-c", &script];
        let runs: Vec<Running> = (0..12).map(|_| house.start(&run)).collect();
        for run in runs {
            let done = run.end();
            assert_eq!(done.code, 0, "{done:?}");
        }
        let log = std::fs::read_to_string(log).unwrap();
        let at_once = log.lines().scan(0, |running, line| {
            *running += if line == "+" { 1 } else { -1 };
            Some(*running)
        });
        assert_eq!(at_once.max(), Some(4), "{log}");
        assert_eq!(log.lines().count(), 24);
        assert_eq!(house.in_use("a"), 0);
    }
}
