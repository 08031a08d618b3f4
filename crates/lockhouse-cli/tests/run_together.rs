//! Many at once.

#![allow(clippy::unwrap_used)]

mod house;

use house::{House, Running};

/// P1, P10 and P11, seen from outside.
#[test]
fn twelve_runs_on_a_capacity_of_four_are_never_more_than_four_and_leave_nothing_held() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "4"]);
        let log = house.path("log");
        // One short line appended is one write, so they come in the order of what happened.
        let script = format!(
            "echo + >> {0}; sleep 0.1; echo - >> {0}",
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
