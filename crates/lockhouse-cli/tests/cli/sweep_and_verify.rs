//! `lockhouse sweep`, `lockhouse verify` and `lockhouse epoch`, in both outputs.

use std::time::Duration;

use crate::house::{House, until};
use lockhouse::Timestamp;
use rusqlite::Connection;
use serde_json::json;

/// Changes rows behind Lockhouse's back.
fn sql(house: &House, statements: &str) {
    let file = Connection::open(house.path("permits.db")).unwrap();
    file.execute_batch(statements).unwrap();
}

fn sweep(house: &House) -> serde_json::Value {
    house.json(&["sweep"])
}

/// Waits until it is `after` that moment. The store's clock is this machine's.
fn passed(moment: &serde_json::Value, after: Duration) {
    let moment: Timestamp = moment.as_str().unwrap().parse().unwrap();
    let due = moment.checked_add(after).unwrap();
    until("it has passed", || Timestamp::now() > due);
}

#[test]
fn a_sweep_says_what_it_ended_and_why() {
    let house = House::on_a_store();
    house.text(&["create", "a", "9"]);
    for (id, options) in [
        ("expired", &["--ttl", "1s"][..]),
        ("silent", &["--owner", "ann"]),
        ("lives", &["--owner", "bob"]),
        ("brief", &["--ttl", "1h"]),
        ("unwatched", &["--owner", "eve"]),
    ] {
        house.text(&[&["acquire", "-s", "a", "--id", id], options].concat());
    }
    house.text(&["heartbeat", "bob", "--ttl", "1h"]);
    let last = house.json(&["heartbeat", "ann", "--ttl", "1s"]);
    passed(&last["expires_at"], Duration::ZERO);

    let done = house.done(&["sweep", "--stale-after", "100s"]);
    assert_eq!(done.code, 0, "{done:?}");
    let first = done.stdout.lines().nth(1).unwrap();
    assert_eq!(
        first,
        "2       requests ended             their time, or their owner's session, had passed"
    );
    assert!(is_told_once(&done.stderr, 2), "{done:?}");
    for (id, reason) in [("expired", "expired"), ("silent", "owner_dead")] {
        assert_eq!(house.json(&["release", id])["end_reason"], reason);
    }
    assert_eq!(house.in_use("a"), 3);

    let nothing = json!({"lapsed": 0, "stale": 0, "idle": 0, "purged": 0, "history_purged": 0});
    assert_eq!(sweep(&house), nothing);
    let held = house.json(&["acquire", "-s", "a", "--id", "unwatched", "--owner", "eve"]);
    passed(&held["created_at"], Duration::from_secs(1));
    let stale = house.json(&["sweep", "--stale-after", "1s"]);
    assert_eq!(stale["stale"], 1, "not bob's, whose session goes on");
    let ended = house.json(&["release", "unwatched"]);
    assert_eq!(ended["end_reason"], "stale");
}

#[test]
fn a_sweep_deletes_the_past() {
    let house = House::on_a_store();
    house.text(&["create", "a", "9"]);
    house.text(&["resize", "a", "8"]);
    for id in ["1", "2", "3"] {
        house.text(&["acquire", "-s", "a", "--id", id]);
    }
    house.text(&["release", "1"]);
    let last = house.json(&["release", "2"]);
    passed(&last["released_at"], Duration::from_secs(1));
    let mut purge = house.command(&["sweep", "-o", "json", "--purge-batch", "1"]);
    let purge = purge
        .env("LOCKHOUSE_PURGE_AFTER", "1s")
        .env("LOCKHOUSE_HISTORY_AFTER", "1s")
        .output()
        .unwrap();
    let swept: serde_json::Value = serde_json::from_slice(&purge.stdout).unwrap();
    assert_eq!(
        swept,
        json!({"lapsed": 0, "stale": 0, "idle": 0, "purged": 2, "history_purged": 1})
    );
    assert_eq!(house.done(&["release", "1"]).code, 1, "its id is forgotten");
    assert_eq!(house.json(&["history", "a"])["changes"], json!([]));
    assert_eq!(house.in_use("a"), 1);
}

#[test]
fn verify_finds_wrong_counters_and_repair_corrects_them() {
    let house = House::on_a_store();
    house.text(&["create", "a", "5"]);
    house.text(&["acquire", "-s", "a=2"]);
    for args in [&["verify"][..], &["verify", "--repair"]] {
        assert_eq!(house.text(args), "nothing is wrong\n");
    }
    assert_eq!(house.json(&["verify"]), json!({"findings": []}));
    assert_eq!(
        house.json(&["verify", "--repair"]),
        json!({"findings": [], "mended": [], "left": []})
    );

    let off = "UPDATE lockhouse_semaphore SET in_use = 4, fence = 0";
    sql(&house, off);
    let done = house.done(&["verify"]);
    let findings = "P2: \"a\" counts 4 in use, but 2 are live\n\
                    P7: fence 1 of \"a\" is beyond its own, 0\n";
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (1, findings, ""));
    let done = house.done(&["-o", "json", "verify"]);
    let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(done.code, 1);
    let p2 = json!({
        "promise": "P2",
        "semaphore": "a",
        "text": "\"a\" counts 4 in use, but 2 are live",
        "can_be_repaired": true,
    });
    assert_eq!(json["findings"][0], p2);

    let mended =
        format!("{findings}corrected \"a\": it had in_use 4 and fence 0\nnothing is wrong\n");
    assert_eq!(house.text(&["verify", "--repair"]), mended);
    assert_eq!(house.in_use("a"), 2);
    assert_eq!(house.text(&["verify"]), "nothing is wrong\n");

    sql(&house, off);
    let json = house.json(&["verify", "--repair"]);
    assert_eq!(
        json["mended"],
        json!([{"semaphore": "a", "in_use": 4, "fence": 0}])
    );
    assert_eq!(json["left"], json!([]));
}

/// P7: the runbook of operations.md.
#[test]
fn after_a_restore_raised_fences_are_beyond_all_that_were_handed_out() {
    let house = House::on_a_store();
    house.text(&["create", "a", "5"]);
    house.text(&["acquire", "-s", "a", "--id", "ends-later"]);
    let backup = house.path("backup.db");
    sql(&house, &format!("VACUUM INTO '{}'", backup.display()));
    house.text(&["release", "ends-later"]);
    let lost = house.json(&["acquire", "-s", "a", "--id", "lost"]);

    for end in ["-wal", "-shm"] {
        // SQLite removes them when the last connection ends.
        let _ = std::fs::remove_file(house.path(&format!("permits.db{end}")));
    }
    std::fs::rename(backup, house.path("permits.db")).unwrap();
    let raised = house.json(&["epoch"]);
    assert_eq!(
        raised,
        json!({"old": 0, "new": 1, "fence": 1_u64 << 32, "semaphores": 1})
    );
    assert_eq!(house.text(&["verify"]), "nothing is wrong\n");
    assert_eq!(house.done(&["release", "lost"]).code, 1, "it is unknown");
    assert_eq!(house.in_use("a"), 1, "what had ended is held again");
    let next = house.json(&["acquire", "-s", "a"]);
    let fence = |request: &serde_json::Value| request["permits"][0]["fence"].as_u64().unwrap();
    assert!(fence(&next) > fence(&lost));
}

#[test]
fn findings_that_repair_cannot_correct_remain_and_exit_1() {
    let house = House::on_a_store();
    house.text(&["create", "a", "5"]);
    house.text(&["acquire", "-s", "a", "--id", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "2"]);
    sql(&house, "UPDATE lockhouse_permit SET fence = 2");
    let done = house.done(&["verify", "--repair"]);
    let finding = "P7: 1 fences of \"a\" were handed out twice\n";
    assert_eq!((done.code, done.stdout), (1, finding.repeat(2)));
}

/// The reason that is told is the one that is kept.
#[test]
fn a_sweep_reports_an_expiry_of_any_owner() {
    let house = House::on_a_store();
    house.text(&["create", "a", "9"]);
    let held = house.json(&[
        "acquire", "-s", "a", "--id", "job-1", "--owner", "ann", "--ttl", "1s",
    ]);
    passed(&held["expires_at"], Duration::ZERO);
    let done = house.done(&["sweep"]);
    assert_eq!(house.json(&["release", "job-1"])["end_reason"], "expired");
    assert!(is_told_once(&done.stderr, 1), "{done:?}");
}

/// Whether the log has one line for all that was ended, with their count.
fn is_told_once(log: &str, count: u32) -> bool {
    let lines: Vec<_> = log.lines().filter(|line| line.contains("ended")).collect();
    lines.len() == 1 && lines[0].contains(&format!("count={count}"))
}

/// P7.
#[test]
fn epoch_prints_the_new_epoch_and_only_raises() {
    let house = House::on_a_store();
    house.text(&["create", "a", "5"]);
    assert_eq!(
        house.text(&["epoch", "--to", "2"]),
        "epoch 2, after 0: 1 fences raised, all are at 8589934592 or beyond\n"
    );
    assert_eq!(house.json(&["epoch"])["new"], 3);
    assert_eq!(house.json(&["epoch", "--to", "3"])["semaphores"], 0);
    let back = house.done(&["epoch", "--to", "1"]);
    assert_eq!(back.code, 64, "{back:?}");
    assert!(back.stderr.contains("fences in epoch 3"), "{back:?}");
    let beyond = house.done(&["epoch", "--to", "2097152"]);
    assert_eq!(beyond.code, 64, "{beyond:?}");
    let next = house.json(&["acquire", "-s", "a"]);
    assert_eq!(next["permits"][0]["fence"], (3_u64 << 32) + 1);
}
