//! The upkeep that `lockhouse serve` does by itself.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::house::{House, Running, until};
use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName, Timestamp, Upkeep};
use nix::sys::signal::Signal;
use rusqlite::Connection;

/// A server that sweeps often. Nobody waits for a permit: it is the sweep that frees.
fn serve(house: &House, options: &[&str]) -> Running {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--sweep-every", "200ms"];
    let mut server = house.start(&[&serve, options].concat());
    assert!(server.line().starts_with("lockhouse serves "));
    server
}

fn state(house: &House, id: &str) -> String {
    let holders = house.json(&["holders"]);
    let held = holders["holders"].as_array().unwrap();
    match held.iter().any(|request| request["external_id"] == id) {
        true => "held".into(),
        false => {
            let released = house.json(&["release", id]);
            released["end_reason"].as_str().unwrap().to_owned()
        }
    }
}

#[test]
fn an_expired_holders_permit_and_a_silent_owners_are_freed() {
    let house = House::on_a_store();
    let _server = serve(&house, &[]);
    house.text(&["create", "a", "9"]);
    for (id, options) in [
        ("expires", &["--ttl", "1s"][..]),
        ("silent", &["--owner", "ann"]),
        ("lives", &["--owner", "bob"]),
        ("held", &[]),
    ] {
        house.text(&[&["acquire", "-s", "a", "--id", id], options].concat());
    }
    house.text(&["heartbeat", "ann", "--ttl", "500ms"]);
    house.text(&["heartbeat", "bob", "--ttl", "1h"]);
    until("two are freed", || house.in_use("a") == 2);
    for (id, expected) in [
        ("expires", "expired"),
        ("silent", "owner_dead"),
        ("lives", "held"),
        ("held", "held"),
    ] {
        assert_eq!(state(&house, id), expected, "{id}");
    }
}

#[test]
fn a_server_logs_ends_by_the_batch() {
    let house = House::on_a_store();
    let mut command = house.command(&["serve", "--listen", "127.0.0.1:0", "--sweep-every", "3s"]);
    command.env("RUST_LOG", "info");
    let mut server = Running::new(command);
    assert!(server.line().starts_with("lockhouse serves "));
    house.text(&["create", "a", "10"]);
    for _ in 0..10 {
        house.text(&["acquire", "-s", "a", "--ttl", "4s"]);
    }
    until("all are ended", || house.in_use("a") == 0);
    server.signal(Signal::SIGTERM);
    let log = server.end().stderr;
    let of_ends: Vec<_> = log.lines().filter(|line| line.contains("ended")).collect();
    // A sweep may come while some have not expired yet.
    assert!((1..=3).contains(&of_ends.len()), "{log}");
    assert!(of_ends.iter().all(|line| line.contains("count=")), "{log}");
    assert!(!log.contains("external_id"), "{log}");
}

/// A request of an old version may hold the reserved permit, and another with it. It is not ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upkeep_that_cannot_run_is_logged_once() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let lockhouse = Lockhouse::connect(&house.store()).await.unwrap();
    let reserved = SemaphoreName::stored("lockhouse:upkeep").unwrap();
    // That makes the semaphore.
    let maintaining = lockhouse.maintain(Upkeep::default()).unwrap();
    loop {
        let holders = lockhouse.holders(Some(&reserved), None, 1).await;
        if holders.is_ok_and(|holders| !holders.requests.is_empty()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    maintaining.stop().await;
    let permits = [reserved, SemaphoreName::parse("a").unwrap()];
    let id = ExternalId::parse("stranger").unwrap();
    let ask = Ask::new(id, permits.map(|name| (name, Count::ONE))).unwrap();
    lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    let mut server = serve(&house, &[]);
    let warning = "the upkeep cannot run";
    let line = loop {
        let line = server.log_line();
        assert!(!line.is_empty(), "the log has no {warning:?}");
        if line.contains(warning) {
            break line;
        }
    };
    assert!(line.contains("WARN") && line.contains("stranger"), "{line}");
    // Five more sweeps would be due.
    thread::sleep(Duration::from_secs(1));
    server.signal(Signal::SIGTERM);
    let rest = server.end().stderr;
    assert!(!rest.contains(warning), "{rest}");
}

#[test]
fn the_environment_sets_it_too() {
    let house = House::on_a_store();
    let mut command = house.command(&["serve", "--listen", "127.0.0.1:0"]);
    command
        .env("LOCKHOUSE_SWEEP_EVERY", "200ms")
        .env("LOCKHOUSE_STALE_AFTER", "1s");
    let mut server = Running::new(command);
    assert!(server.line().starts_with("lockhouse serves "));
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "job"]);
    until("it is freed", || house.in_use("a") == 0);
    assert_eq!(state(&house, "job"), "stale");
}

/// A server that knows of no job but "job-2"; its URL.
fn jobs() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut call = [0; 4096];
            let read = stream.read(&mut call).unwrap_or(0);
            let call = String::from_utf8_lossy(&call[..read]);
            let status = match call.contains(" /jobs/job%2D2 ") {
                true => "200 OK",
                false => "404 Not Found",
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn owners_are_checked_where_the_settings_say() {
    let house = House::on_a_store();
    let check = format!("job-*={}/jobs/{{owner}}", jobs());
    let _server = serve(&house, &["--check-every", "1s", "--check", &check]);
    house.text(&["create", "a", "9"]);
    for owner in ["job-1", "job-2", "ann"] {
        house.text(&["acquire", "-s", "a", "--id", owner, "--owner", owner]);
    }
    until("one is freed", || house.in_use("a") == 2);
    for (id, expected) in [("job-1", "owner_dead"), ("job-2", "held"), ("ann", "held")] {
        assert_eq!(state(&house, id), expected, "{id}");
    }
}

/// A server that is asked for the parent of its jobs answers 404, which says nothing of any job.
#[test]
fn an_owner_named_dot_dot_is_not_taken_for_dead() {
    let house = House::on_a_store();
    let check = format!("*={}/jobs/{{owner}}", jobs());
    let _server = serve(&house, &["--check-every", "1s", "--check", &check]);
    house.text(&["create", "a", "9"]);
    for owner in [".", "..", "gone"] {
        house.text(&["acquire", "-s", "a", "--id", owner, "--owner", owner]);
    }
    until("one is freed", || house.in_use("a") == 2);
    let held = house.json(&["holders"]);
    let owners = held["holders"].as_array().unwrap();
    let owners: Vec<_> = owners.iter().map(|request| &request["owner"]).collect();
    assert_eq!(owners, [".", ".."]);
}

#[test]
fn a_check_whose_host_an_owner_chooses_is_refused() {
    let house = House::on_a_store();
    let check = "*=http://{owner}.example/jobs/{owner}";
    let refused = house
        .command(&["serve", "--check", check])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(64));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("in its path or query"), "{told}");
}

/// By SQL, and beside a check that never answers about very many.
#[test]
fn a_check_that_hangs_holds_up_no_other() {
    let house = House::on_a_store();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("slow-*=http://{}/{{owner}}", silent.local_addr().unwrap());
    let file = house.path("jobs.db");
    let jobs = "CREATE TABLE jobs (id TEXT, state TEXT);
        INSERT INTO jobs VALUES ('job-1', 'over'), ('job-2', 'running')";
    Connection::open(&file)
        .unwrap()
        .execute_batch(jobs)
        .unwrap();
    let query = "SELECT state = 'running' FROM jobs WHERE id = ?";
    let by_sql = format!("job-*=sqlite:{} {query}", file.display());
    let options = [
        "--check-every",
        "1s",
        "--check",
        &silent,
        "--check",
        &by_sql,
    ];
    house.text(&["create", "a", "99"]);
    for i in 0..40 {
        house.text(&["acquire", "-s", "a", "--owner", &format!("slow-{i}")]);
    }
    for owner in ["job-1", "job-2", "job-3"] {
        house.text(&["acquire", "-s", "a", "--id", owner, "--owner", owner]);
    }
    let _server = serve(&house, &options);
    until("two are freed", || house.in_use("a") == 41);
    for (id, expected) in [
        ("job-1", "owner_dead"),
        ("job-2", "held"),
        ("job-3", "owner_dead"),
    ] {
        assert_eq!(state(&house, id), expected, "{id}");
    }
}

#[test]
fn a_check_that_makes_no_sense_is_refused_at_the_start() {
    let house = House::on_a_store();
    for check in [
        "*=sqlite:jobs.db",
        "*=mysql://a@b/c SELECT 1",
        "*=redis://a SELECT ?",
    ] {
        let done = house.done(&["serve", "--listen", "127.0.0.1:0", "--check", check]);
        assert_eq!(done.code, 64, "{check}: {done:?}");
    }
}

/// The process that has the upkeep's permit.
fn upkeeper(house: &House) -> Option<String> {
    let name = SemaphoreName::stored("lockhouse:upkeep").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let holders = runtime.block_on(async {
        let lockhouse = Lockhouse::connect(house.store()).await.unwrap();
        lockhouse.holders(Some(&name), None, 1).await
    });
    Some(holders.ok()?.requests.first()?.external_id.to_string())
}

/// A new server, as of a new version, need not wait until the old one's permit lapses.
#[test]
fn a_server_that_stops_leaves_the_upkeep_to_the_next_at_once() {
    let house = House::on_a_store();
    let first = house.start(&["serve", "--listen", "127.0.0.1:0"]);
    until("the first has the permit", || upkeeper(&house).is_some());
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().code, 0);
    assert_eq!(upkeeper(&house), None);
}

/// P10: a due request waits for less than two intervals.
#[test]
fn one_server_does_the_upkeep_and_another_takes_over_after_a_kill() {
    const INTERVAL: Duration = Duration::from_secs(3);
    let house = House::on_a_store();
    let serve = || {
        let every = ["--sweep-every", "3s"];
        let mut server = house.start(&[&["serve", "--listen", "127.0.0.1:0"][..], &every].concat());
        assert!(server.line().starts_with("lockhouse serves "));
        server
    };
    let first = serve();
    until("the first has the permit", || upkeeper(&house).is_some());
    let had = upkeeper(&house).unwrap();
    let _second = serve();
    house.text(&["create", "a", "1"]);
    let swept = |id: &str| {
        house.text(&["acquire", "-s", "a", "--id", id, "--ttl", "500ms"]);
        until("it is freed", || house.in_use("a") == 0);
        assert_eq!(state(&house, id), "expired");
    };
    swept("job-1");
    assert_eq!(upkeeper(&house), Some(had.clone()), "it keeps the permit");

    first.signal(Signal::SIGKILL);
    swept("job-2");
    assert_ne!(upkeeper(&house), Some(had), "the second has it");
    let ended = house.json(&["release", "job-2"]);
    let time = |name: &str| -> Timestamp { ended[name].as_str().unwrap().parse().unwrap() };
    let late = time("released_at").duration_since(time("expires_at"));
    let late = Duration::try_from(late).unwrap();
    assert!(late < 2 * INTERVAL, "{late:?}");
    for listing in ["holders", "list"] {
        let listing = house.text(&[listing]);
        assert!(!listing.contains("lockhouse:upkeep"), "{listing}");
    }
}
