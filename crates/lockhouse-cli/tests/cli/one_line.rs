//! P11 between commands without a server: each is a separate process, and all stand in one line.

use std::time::Duration;

use crate::house::{House, Running};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

on_each_store!(
    six_runs_half_a_second_apart_are_served_in_their_order,
    the_last_of_six_runs_comes_first_with_priority_100,
    a_run_that_gave_up_keeps_nobody_waiting,
);

/// Starts a run that appends `what` to the log.
fn run(house: &House, what: &str, more: &[&str]) -> Running {
    let log = house.path("log");
    let script = format!("echo {what} >> {}", log.to_str().unwrap());
    let mut arguments = vec!["run", "-s", "deploy"];
    arguments.extend(more);
    arguments.extend(["--", "sh", "-c", &script]);
    house.start(&arguments)
}

/// The log after six runs, each half a second after the one before and the last with `more`, and a
/// holder that releases then.
async fn served(place: &Place, more: &[&str]) -> Vec<String> {
    let house = House::at(place.url());
    house.text(&["create", "deploy", "1"]);
    let hold = ["acquire", "-s", "deploy", "--id", "held"];
    house.text(&hold);
    let mut runs = Vec::new();
    for i in 1..=6 {
        let more = if i == 6 { more } else { &[] };
        runs.push(run(&house, &i.to_string(), more));
        sleep(Duration::from_millis(500)).await;
    }
    // The last has waited long enough to be entered in the line.
    sleep(Duration::from_secs(1)).await;
    house.text(&["release", "held"]);
    for run in runs {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    let log = std::fs::read_to_string(house.path("log")).unwrap();
    log.lines().map(str::to_owned).collect()
}

async fn six_runs_half_a_second_apart_are_served_in_their_order(place: Place) {
    let served = served(&place, &[]).await;
    assert_eq!(served, ["1", "2", "3", "4", "5", "6"]);
    place.clear().await;
}

async fn the_last_of_six_runs_comes_first_with_priority_100(place: Place) {
    let served = served(&place, &["--priority", "100"]).await;
    assert_eq!(served, ["6", "1", "2", "3", "4", "5"]);
    place.clear().await;
}

/// It says goodbye, though it ends at once: nobody is left waiting for a process that is gone.
async fn a_run_that_gave_up_keeps_nobody_waiting(place: Place) {
    let house = House::at(place.url());
    house.text(&["create", "deploy", "1"]);
    house.text(&["create", "other", "1"]);
    house.text(&["acquire", "-s", "deploy", "--id", "held"]);
    let done = run(&house, "never", &["--wait", "1s"]).end();
    assert_eq!(done.code, 75, "{done:?}");
    let shown: serde_json::Value =
        serde_json::from_str(&house.text(&["show", "deploy", "-o", "json"])).unwrap();
    assert_eq!(shown["waiting"], 0, "{shown}");
    house.text(&["release", "held"]);
    let acquires = |semaphore| {
        let begun = std::time::Instant::now();
        house.text(&["acquire", "-s", semaphore, "--id", semaphore]);
        begun.elapsed()
    };
    let (usual, took) = (acquires("other"), acquires("deploy"));
    // A process that is gone is passed over after 0.7 s.
    assert!(
        took < usual + Duration::from_millis(600),
        "{took:?} after {usual:?}"
    );
    place.clear().await;
}
