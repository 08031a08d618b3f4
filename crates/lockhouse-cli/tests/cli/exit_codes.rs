//! Exit codes, and what stderr says with them.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use crate::house::{Done, House, Running, until};
use serde_json::Value;

/// Through both outputs: the exit code, what people read, and the problem's code.
#[track_caller]
fn refused(house: &House, args: &[&str], exit: i32, people: &str, code: &str) {
    let done = house.done(args);
    assert_eq!((done.code, &*done.stdout), (exit, ""), "{done:?}");
    assert!(done.stderr.starts_with("lockhouse: "), "{done:?}");
    assert!(done.stderr.contains(people), "{done:?}");
    let done = house.done(&[&["-o", "json"], args].concat());
    assert_eq!((done.code, &*done.stdout), (exit, ""), "{done:?}");
    let problem = problem(&done);
    assert_eq!(problem["code"], code, "{done:?}");
    assert!(
        problem["status"]
            .as_u64()
            .is_some_and(|status| status >= 400),
        "{done:?}"
    );
}

fn problem(done: &Done) -> Value {
    serde_json::from_str(&done.stderr).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn refusals_are_1() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "2"]);
        house.text(&["acquire", "-s", "a", "--id", "job"]);
        house.text(&["acquire", "-s", "a", "--id", "ended"]);
        house.text(&["release", "ended"]);
        let refused = |args: &[&str], people, code| refused(&house, args, 1, people, code);
        refused(
            &["show", "b"],
            "try: lockhouse create b CAPACITY",
            "unknown_semaphore",
        );
        refused(
            &["acquire", "-s", "b"],
            "\"b\" does not exist",
            "unknown_semaphore",
        );
        refused(
            &["run", "-s", "b", "--", "true"],
            "lockhouse create b",
            "unknown_semaphore",
        );
        refused(&["renew", "x"], "try: lockhouse holders", "unknown_request");
        refused(
            &["acquire", "-s", "a=3"],
            "try: lockhouse resize a 3",
            "exceeds_capacity",
        );
        refused(
            &["delete", "a"],
            "try: lockhouse holders a",
            "semaphore_in_use",
        );
        let other_ask = ["acquire", "-s", "a=2", "--id", "job"];
        refused(&other_ask, "try: another --id", "idempotency_conflict");
        refused(
            &["resize", "a", "3", "--expect", "1"],
            "try: lockhouse history a",
            "capacity_changed",
        );
        refused(
            &["create", "a", "3"],
            "try: lockhouse resize a 3;",
            "capacity_changed",
        );
        refused(
            &["release", "x", "--force"],
            "try: lockhouse holders",
            "unknown_request",
        );
        refused(&["renew", "ended"], "has ended: released", "request_ended");
        refused(
            &["acquire", "-s", "a", "--id", "ended"],
            "try: another --id",
            "request_ended",
        );
    }
}

#[test]
fn usage_errors_are_64() {
    let house = House::on_a_store();
    let refused = |args: &[&str], people| refused(&house, args, 64, people, "invalid_request");
    refused(&["frob"], "unrecognized subcommand 'frob'");
    refused(&["create", "a", "many"], "invalid value 'many'");
    refused(&["create", "a", "-1"], "capacity is -1");
    refused(&["create", " a", "1"], "white space at an end");
    refused(&["acquire"], "--semaphore");
    refused(&["acquire", "-s", "a=0"], "count is 0");
    refused(
        &["acquire", "-s", "a=99999999999999999999"],
        "count is 99999999999999999999",
    );
    refused(&["acquire", "-s", "a", "-s", "a=2"], "name \"a\" twice");
    refused(
        &["acquire", "-s", "a", "--ttl", "soon"],
        "invalid value 'soon'",
    );
    refused(&["acquire", "-s", "a", "--ttl", "0s"], "ttl_ms is 0");
    refused(
        &["acquire", "-s", "a", "--ttl", "1ns"],
        "ttl_ms is 1ns, less than a millisecond; give at least 1 ms",
    );
    refused(&["renew", "x", "--ttl", "999us"], "ttl_ms is 999µs");
    refused(
        &["acquire", "-s", "a", "--priority", "-101"],
        "priority is -101",
    );
    refused(&["run", "-s", "a"], "COMMAND");
    refused(&["run", "-s", "a", "true"], "unexpected argument 'true'");
    refused(
        &["run", "-s", "a", "--owner", "", "--", "true"],
        "owner is empty",
    );
    refused(&["serve", "--listen", "7117"], "HOST:PORT");
    refused(
        &["serve", "--url", "http://127.0.0.1:7117"],
        "serve needs a store",
    );
    for (url, people) in [
        ("sqlite:~/x.db", "begins with ~"),
        ("sqlite::memory:", "use memory: instead"),
        ("sqlite://x/y.db", "names no file"),
    ] {
        for verb in [&["list"][..], &["create", "a", "1"]] {
            refused(&[verb, &["--url", url]].concat(), people);
        }
    }
    for verb in ["sweep", "verify"] {
        let there = [verb, "--url", "http://127.0.0.1:7117"];
        refused(&there, "do this where its database is");
    }
    for (flag, value, people) in [
        ("--sweep-every", "99ms", "it goes from 100ms to"),
        ("--check-every", "0s", "it goes from 1s to"),
        ("--stale-after", "11years", "it goes from 1s to 10years"),
        ("--purge-every", "often", "invalid value 'often'"),
        ("--purge-batch", "0", "0 is not in 1..=10000"),
        ("--purge-pause", "2m", "it goes from 0s to 1m"),
        ("--check", "job-*", "takes PATTERN=URL"),
        ("--check", "*=http://host/jobs", "{owner} in it"),
    ] {
        refused(&["serve", flag, value], people);
    }
    refused(&["heartbeat", "ann", "--ttl", "0s"], "ttl_ms is 0");
    refused(&["goodbye", ""], "owner is empty");
    refused(
        &["resize", "a", "1", "--expect", "-1"],
        "expected_capacity is -1",
    );
    // An unknown scheme may be a user: it is not repeated.
    refused(&["list", "--url", "oracle://db"], "try sqlite:PATH");
    refused(&["list", "--url", "nowhere"], "try sqlite:PATH");
    refused(&["list", "--url", ""], "--url is empty; leave it out");
    refused(&["list", "--url="], "--url is empty; leave it out");
    for verb in [
        &["list"][..],
        &["create", "a", "1"],
        &["run", "-s", "a", "--", "true"],
    ] {
        let args = [&["--url", "memory:"][..], verb].concat();
        refused(&args, "lockhouse serve --url memory:");
    }
    refused(&["acquire", "-s", "s1=x"], "write s1=x=1");
    refused(&["run", "-s", "s1=", "--", "true"], "is not a number");
}

/// They are Lockhouse's own.
#[test]
fn reserved_names_are_64() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        for args in [
            &["create", "lockhouse:upkeep", "5"][..],
            &["resize", "lockhouse:upkeep", "5"],
            &["show", "lockhouse:upkeep"],
            &["delete", "lockhouse:upkeep"],
            &["history", "lockhouse:upkeep"],
            &["holders", "lockhouse:upkeep"],
            &["acquire", "-s", "lockhouse:upkeep"],
            &["run", "-s", "lockhouse:upkeep", "--", "true"],
        ] {
            refused(&house, args, 64, "which is reserved", "invalid_request");
        }
    }
}

/// Closed means paused: only an ask that does not wait is refused.
#[test]
fn a_closed_semaphore_is_75_without_a_wait() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "0"]);
        let hint = "lockhouse resize a CAPACITY opens it";
        refused(&house, &["acquire", "-s", "a"], 75, hint, "exhausted");
        let run = ["run", "-s", "a", "--wait", "50ms", "--", "true"];
        refused(&house, &run, 75, "is closed", "exhausted");
        let run = house.start(&["run", "-s", "a", "--", "true"]);
        until("it waits", || {
            house.url().starts_with("sqlite") || house.json(&["show", "a"])["waiting"] == 1
        });
        house.text(&["resize", "a", "1"]);
        assert_eq!(run.end().code, 0);
    }
}

/// Whatever it is, a program finds its code in the list of the HTTP API.
#[test]
fn every_problem_has_a_code_of_the_contract_and_a_status() {
    let house = House::on_a_store();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    house.text(&["create", "a", "1"]);
    for args in [
        &["serve", "--listen", &taken][..],
        &["frob"],
        &["run", "-s", "a", "--", "no such command"],
    ] {
        let problem = problem(&house.done(&[&["-o", "json"], args].concat()));
        let code = problem["code"].as_str().unwrap();
        assert!(lockhouse::Code::parse(code).is_some(), "{problem}");
        assert!(
            problem["status"].is_u64() && problem["title"].is_string(),
            "{problem}"
        );
    }
}

#[test]
fn a_store_that_does_not_answer_is_69() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let house = House::on_a_store();
    refused(
        &house,
        &["list", "--url", &url],
        69,
        "or another --url",
        "store_unavailable",
    );
}

#[test]
fn no_permit_in_time_is_75() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "1"]);
        house.text(&["create", "b", "1"]);
        house.text(&["acquire", "-s", "a"]);
        let acquire = ["acquire", "-s", "a", "-s", "b"];
        refused(&house, &acquire, 75, "semaphore \"a\"; wait", "exhausted");
        let run = [
            "run", "-s", "a", "-s", "b", "--wait", "50ms", "--", "echo", "no",
        ];
        refused(
            &house,
            &run,
            75,
            "lockhouse holders a says who holds",
            "exhausted",
        );
        assert_eq!(house.in_use("b"), 0, "all or nothing");
    }
}

#[test]
fn help_and_version_exit_0() {
    let house = House::on_a_store();
    for args in [
        &["--help"][..],
        &["help", "run"],
        &["run", "-h"],
        &["--version"],
    ] {
        assert!(house.text(args).contains("ockhouse"), "{args:?}");
    }
    let help = house.text(&["--help"]);
    for code in ["64", "69", "75", "76", "126", "127", "128+n"] {
        assert!(
            help.contains(&format!("\n  {code} ")),
            "{code} is not listed"
        );
    }
    assert_eq!(house.done(&[]).code, 64);
}

/// An argument need not be text: a command's are handed on, and others are refused.
#[test]
fn an_argument_that_is_not_utf_8_is_64_unless_it_is_the_commands() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let odd = OsStr::from_bytes(b"\xff");
    for before in [
        &["list"][..],
        &["acquire", "-s"],
        &["run", "-s", "a", "--owner"],
        &[],
    ] {
        let mut command = house.command(before);
        command.arg(odd);
        let done = Running::new(command).end();
        assert_eq!(done.code, 64, "{before:?}: {done:?}");
        assert!(done.stderr.starts_with("lockhouse: "), "{done:?}");
    }
    let mut command = house.command(&[
        "run",
        "-s",
        "a",
        "--",
        "sh",
        "-c",
        "printf %s \"$1\" | wc -c",
        "-",
    ]);
    command.arg(odd);
    let done = Running::new(command).end();
    assert_eq!((done.code, done.stdout.trim()), (0, "1"), "{done:?}");
}
