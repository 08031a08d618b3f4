//! Heartbeats and goodbyes, force and conditions: on a store and through a server, in both outputs.

use crate::house::{House, until};
use serde_json::json;

fn on_a_store_and_through_a_server(test: impl Fn(&House)) {
    test(&House::on_a_store());
    test(&House::behind_a_server());
}

/// The permits of `a` that its owner holds under these ids, without a TTL.
fn held(house: &House, owner: &str, ids: &[&str]) {
    for id in ids {
        house.text(&["acquire", "-s", "a", "--id", id, "--owner", owner]);
    }
}

#[test]
fn a_heartbeat_says_until_when_it_is_good() {
    on_a_store_and_through_a_server(|house| {
        let text = house.text(&["heartbeat", "ann"]);
        assert!(
            text.starts_with("owner \"ann\" is expected again by 20"),
            "{text}"
        );
        assert!(text.contains(" UTC (in "), "{text}");
        let json = house.json(&["heartbeat", "ann", "--ttl", "5m"]);
        assert_eq!(
            (&json["owner"], &json["ttl_ms"]),
            (&json!("ann"), &json!(300_000))
        );
        assert!(json["expires_at"].is_string());
    });
}

#[test]
fn a_goodbye_releases_all_that_the_owner_holds() {
    on_a_store_and_through_a_server(|house| {
        house.text(&["create", "a", "9"]);
        held(house, "ann", &["1", "2"]);
        held(house, "bob", &["3"]);
        house.text(&["heartbeat", "ann"]);
        assert_eq!(
            house.json(&["goodbye", "ann"]),
            json!({"owner": "ann", "released": 2})
        );
        assert_eq!(
            house.text(&["goodbye", "bob"]),
            "owner \"bob\" is gone, 1 request released\n"
        );
        assert_eq!(
            house.text(&["goodbye", "bob"]),
            "owner \"bob\" is gone, 0 requests released\n"
        );
        assert_eq!(house.in_use("a"), 0);
    });
}

#[test]
fn force_ends_any_hold_and_records_its_caller() {
    on_a_store_and_through_a_server(|house| {
        house.text(&["create", "a", "2"]);
        held(house, "ann", &["1", "2"]);
        let mut force = house.command(&["release", "1", "--force"]);
        let output = force.env("USER", "bob").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let begin = "request \"1\" ended by force, by bob@";
        assert!(text.starts_with(begin), "{text}");
        let again = house.text(&["release", "1"]);
        let begin = "request \"1\" had ended before: forced, by bob@";
        assert!(again.starts_with(begin), "{again}");

        let json = house.json(&["release", "2", "--force"]);
        assert_eq!(
            (&json["released"], &json["end_reason"]),
            (&json!(true), &json!("forced"))
        );
        assert!(json["ended_by"].as_str().unwrap().contains('@'), "{json}");
        assert_eq!(house.in_use("a"), 0);
    });
}

#[test]
fn a_request_is_shown_with_its_end() {
    on_a_store_and_through_a_server(|house| {
        house.text(&["create", "a", "3"]);
        held(house, "ann", &["live", "released", "forced"]);
        house.text(&["release", "released", "--by", "bob@ops"]);
        house.text(&["release", "forced", "--force"]);
        let live = house.json(&["request", "live"]);
        assert_eq!(
            (&live["state"], &live["permits"][0]["semaphore"]),
            (&json!("acquired"), &json!("a"))
        );
        assert_eq!(live["ended_by"], json!(null), "{live}");
        let released = house.json(&["request", "released"]);
        assert_eq!(
            (&released["end_reason"], &released["ended_by"]),
            (&json!("released"), &json!("bob@ops"))
        );
        let forced = house.text(&["request", "forced"]);
        for line in [
            "ID:         forced",
            "Owner:      ann",
            "Reason:     forced",
        ] {
            assert!(
                forced.lines().any(|found| found == line),
                "{line}: {forced}"
            );
        }
        let by = forced.lines().find(|line| line.starts_with("Ended by:"));
        assert!(by.unwrap().contains('@'), "{forced}");
        let unknown = house.command(&["request", "nobody"]).output().unwrap();
        assert_eq!(unknown.status.code(), Some(1));
    });
}

#[test]
fn a_command_whose_hold_is_ended_by_force_is_stopped() {
    let house = House::on_a_store();
    let mut running = house.run(&["--id", "job", "--ttl", "1s"], "echo up; sleep 60");
    assert_eq!(running.line(), "up");
    house.text(&["release", "job", "--force"]);
    let done = running.end();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(done.stderr.contains("it was ended: forced"), "{done:?}");
}

#[test]
fn a_resize_may_say_what_it_expects() {
    on_a_store_and_through_a_server(|house| {
        house.text(&["create", "a", "1"]);
        let resize = ["resize", "a", "2", "--expect", "1"];
        for _ in 0..2 {
            assert_eq!(
                house.text(&resize),
                "semaphore \"a\" resized to capacity 2\n"
            );
        }
        let done = house.done(&["resize", "a", "3", "--expect", "1"]);
        assert_eq!(done.code, 1);
        assert!(
            done.stderr.contains("capacity of \"a\" is 2, not 1"),
            "{done:?}"
        );
        let json = house.json(&["resize", "a", "3", "--expect", "2"]);
        assert_eq!(json["capacity"], 3);
    });
}

#[test]
fn silence_of_an_owner_frees_wanted_permits() {
    on_a_store_and_through_a_server(|house| {
        house.text(&["create", "a", "1"]);
        held(house, "ann", &["1"]);
        house.text(&["heartbeat", "ann", "--ttl", "20ms"]);
        until("it is freed", || {
            house.done(&["acquire", "-s", "a"]).code == 0
        });
        assert_eq!(
            house.json(&["release", "1"])["end_reason"],
            json!("owner_dead")
        );
    });
}
