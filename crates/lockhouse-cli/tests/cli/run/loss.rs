//! A hold that is lost takes the command and all that it started with it, in time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::house::{House, Running, runs, until};
use lockhouse::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::Connection;
use serde_json::Value;

/// Ignores SIGTERM, as does what it starts; prints both their pids.
const STUBBORN: &str = "trap '' TERM
                        sh -c 'while :; do sleep 0.02; done' & echo $$ $!
                        while :; do sleep 0.02; done";

/// Starts [`STUBBORN`]; its pid, and that of what it started.
fn stubborn(house: &House, options: &[&str]) -> (Running, [String; 2]) {
    let mut run = house.run(options, STUBBORN);
    let line = run.line();
    let (child, grandchild) = line.split_once(' ').unwrap();
    let pids = [child.to_owned(), grandchild.to_owned()];
    (run, pids)
}

/// Waits until both have ended, which must be before the hold does.
fn end_in_time(house: &House, pids: &[String; 2]) {
    until("the tree is stopped", || !pids.iter().any(|pid| runs(pid)));
    let now = Timestamp::now();
    let expires_at = house.expires_at("a");
    assert!(now < expires_at, "stopped {now}, held until {expires_at}");
}

#[test]
fn a_hold_is_renewed_while_the_command_runs() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        let mut run = house.run(&["--ttl", "600ms"], "echo up; cat");
        assert_eq!(run.line(), "up");
        let first = house.expires_at("a");
        until("it is renewed", || {
            house.expires_at("a").duration_since(first).as_millis() > 1000
        });
        run.close_stdin();
        assert_eq!(run.end().code, 0);
    }
}

/// consul #9788: cut off, and the command ran on for 90 s.
#[test]
fn a_tree_whose_hold_cannot_be_renewed_is_stopped_before_it_expires() {
    let mut house = House::behind_a_server();
    let (run, pids) = stubborn(&house, &["--ttl", "2s"]);
    house.kill_server();
    end_in_time(&house, &pids);
    let done = run.end();
    assert_eq!(done.code, 76);
    assert!(
        done.stderr
            .contains("was lost: it could not be renewed in time"),
        "{done:?}"
    );
}

/// consul #9788, where nothing says that it is cut off: its calls are taken, and not answered.
#[test]
fn a_tree_whose_server_is_silent_is_stopped_before_it_expires() {
    let house = House::behind_a_server();
    let (run, pids) = stubborn(&house, &["--ttl", "2s"]);
    house.signal_server(Signal::SIGSTOP);
    end_in_time(&house, &pids);
    house.signal_server(Signal::SIGCONT);
    assert_eq!(run.end().code, 76);
}

/// It asks before it kills, too.
#[test]
fn a_tree_whose_run_is_stopped_is_asked_to_end() {
    let house = House::on_a_store();
    let script = "trap 'echo tidying up; exit' TERM; echo up; while :; do sleep 0.02; done";
    let mut run = house.run(&["--ttl", "3s"], script);
    assert_eq!(run.line(), "up");
    run.signal(Signal::SIGSTOP);
    assert_eq!(run.line(), "tidying up");
    run.signal(Signal::SIGCONT);
    assert_eq!(run.end().code, 76);
}

#[test]
fn a_tree_whose_run_is_killed_is_stopped_before_the_hold_expires() {
    let house = House::on_a_store();
    let (run, pids) = stubborn(&house, &["--ttl", "2s"]);
    run.signal(Signal::SIGKILL);
    end_in_time(&house, &pids);
}

#[test]
fn a_tree_whose_run_is_stopped_is_killed_before_the_hold_expires() {
    let house = House::on_a_store();
    let (run, pids) = stubborn(&house, &["--ttl", "2s"]);
    run.signal(Signal::SIGSTOP);
    end_in_time(&house, &pids);
    run.signal(Signal::SIGCONT);
    let done = run.end();
    assert_eq!(done.code, 76, "{done:?}");
}

/// The guard asks first, but gives no more time than there was before.
#[test]
fn a_tree_whose_run_is_killed_at_the_last_moment_is_killed_when_it_would_have_been() {
    let house = House::on_a_store();
    let (run, pids) = stubborn(&house, &["--ttl", "8s"]);
    run.signal(Signal::SIGSTOP);
    let expires_at = house.expires_at("a");
    // The tree is to be killed 400 ms before, and would be asked for as long.
    let left = || expires_at.duration_since(Timestamp::now()).as_millis();
    until("it is nearly time", || left() < 450);
    run.signal(Signal::SIGKILL);
    until("the tree is stopped", || !pids.iter().any(|pid| runs(pid)));
    assert!(left() > 200, "{} ms before the expiry", left());
}

#[test]
fn a_lost_guard_does_no_harm() {
    let house = House::on_a_store();
    let mut run = house.run(&[], "echo $$; cat");
    let command = run.line();
    let of_run = format!("/proc/{0}/task/{0}/children", run.pid());
    let children = std::fs::read_to_string(of_run).unwrap();
    let guards: Vec<_> = children
        .split_whitespace()
        .filter(|pid| *pid != command)
        .collect();
    let [guard] = guards[..] else {
        panic!("besides the command {command} there is the guard: {children}")
    };
    kill(Pid::from_raw(guard.parse().unwrap()), Signal::SIGKILL).unwrap();
    run.close_stdin();
    assert_eq!(run.end().code, 0);
    assert_eq!(house.in_use("a"), 0);
}

#[test]
fn a_command_may_end_gracefully_when_the_hold_is_ended() {
    let house = House::on_a_store();
    let script = "trap 'echo tidying up; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let mut run = house.run(&["--ttl", "3s", "--id", "job"], script);
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    assert_eq!(run.line(), "tidying up");
    let done = run.end();
    assert_eq!(done.code, 76);
    assert!(
        done.stderr
            .contains("\"job\" was lost: it was ended: released"),
        "{done:?}"
    );
}

#[test]
fn a_tree_whose_hold_somebody_ended_ends_whether_it_wants_to_or_not() {
    let house = House::on_a_store();
    let (run, pids) = stubborn(&house, &["--ttl", "3s", "--id", "job"]);
    house.text(&["release", "job"]);
    assert_eq!(run.end().code, 76);
    until("the tree is stopped", || !pids.iter().any(|pid| runs(pid)));
}

/// The command ends when it is asked to, what it started does not.
#[test]
fn a_tree_is_killed_even_if_run_is_killed_while_stopping_it() {
    let house = House::on_a_store();
    let script = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.02; done' &
                  trap exit TERM; while :; do sleep 0.02; done";
    let command = format!("echo $$; {script}");
    let mut run = house.run(&["--ttl", "40s", "--id", "job"], &command);
    let [command, stubborn] = [run.line(), run.line()];
    house.text(&["release", "job"]);
    until("the command ends", || !runs(&command));
    assert!(runs(&stubborn));
    run.signal(Signal::SIGKILL);
    until("the tree is killed", || !runs(&stubborn));
}

#[test]
fn a_second_ctrl_c_kills_a_tree_that_is_being_stopped() {
    let house = House::on_a_store();
    // Two signals that come at once are one: it takes its time.
    let script = "trap 'echo asked' TERM; trap 'sleep 0.2; echo not yet' INT
                  echo up; while :; do sleep 0.02; done";
    let mut run = house.run(&["--ttl", "40s", "--id", "job"], script);
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    assert_eq!(run.line(), "asked");
    let asked = Instant::now();
    run.signal(Signal::SIGINT);
    assert_eq!(run.line(), "not yet");
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code, 76);
    let took = asked.elapsed();
    assert!(
        took < Duration::from_millis(1500),
        "of 2 s it had: {took:?}"
    );
}

/// `run` reaps the processes that end after their parents.
#[test]
fn a_tree_that_ends_when_it_is_asked_is_not_waited_for() {
    let house = House::on_a_store();
    let script = "for i in 1 2 3; do (sleep 1000 & sleep 1000) & done
                  trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.02; done";
    let mut run = house.run(&["--ttl", "40s", "--id", "job"], script);
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    assert_eq!(run.line(), "asked");
    let asked = Instant::now();
    assert_eq!(run.end().code, 76);
    let took = asked.elapsed();
    assert!(
        took < Duration::from_millis(1500),
        "of 2 s it had: {took:?}"
    );
}

#[test]
fn a_loss_that_is_found_out_at_the_end_is_a_loss() {
    let house = House::on_a_store();
    let mut run = house.run(
        &["--ttl", "1h", "--id", "job", "-o", "json"],
        "echo up; cat",
    );
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    run.close_stdin();
    let done = run.end();
    let problem: Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!((done.code, &problem["code"]), (76, &"request_ended".into()));
}

#[test]
fn a_command_that_ended_in_time_has_ended_well_though_nothing_can_be_given_back() {
    let mut house = House::behind_a_server();
    let mut run = house.run(&["--ttl", "1h"], "echo up; cat; exit 5");
    assert_eq!(run.line(), "up");
    house.kill_server();
    run.close_stdin();
    let done = run.end();
    assert_eq!(done.code, 5);
    assert!(done.stderr.contains("could not be released"), "{done:?}");
}

/// consul #4902: the lock was lost, and locking again said that it was held already.
#[test]
fn a_lost_hold_is_not_held_on_retry() {
    let house = House::on_a_store();
    let run = house.run(
        &["--id", "job", "--owner", "ann", "--ttl", "2s"],
        "sleep 1000",
    );
    until("it is held", || house.in_use("a") == 1);
    house.text(&["release", "job"]);
    assert_eq!(run.end().code, 76);
    let same = ["--id", "job", "--owner", "ann", "--", "true"];
    let again = house.done(&[&["run", "-s", "a"], &same[..]].concat());
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("has ended"), "{again:?}");
    let run = ["run", "-s", "a", "--", "sh", "-c", "echo $LOCKHOUSE_FENCE"];
    assert_eq!(house.text(&run), "2\n");
}

/// If the hold is lost before the command starts, the command is not started.
#[test]
fn a_command_whose_hold_is_lost_before_it_begins_is_not_started() {
    let house = House::on_a_store();
    let marker = house.path("started");
    house.text(&["migrate"]);
    let store = Connection::open(house.path("permits.db")).unwrap();
    // Beginning a session takes a second or more, much longer than the hold lasts.
    store
        .execute_batch(
            "CREATE TABLE long (x INTEGER);
             INSERT INTO long
                 WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5000)
                 SELECT x FROM n;
             CREATE TRIGGER slow AFTER INSERT ON lockhouse_owner_session BEGIN
                 UPDATE long SET x = 0
                 WHERE (SELECT count(*) FROM long a, long b WHERE a.x + b.x < 0) > 0;
             END;",
        )
        .unwrap();
    let script = format!("touch {}", marker.display());
    let done = house.run(&["--ttl", "300ms"], &script).end();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(
        done.stderr.contains("the command was not started"),
        "{done:?}"
    );
    assert!(!marker.exists());
}

/// P9. A proxy such as nginx repeats a call if a server dies before it answers.
#[test]
fn a_release_that_a_proxy_repeats_is_no_lost_hold() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    let server = house.url().strip_prefix("http://").unwrap().to_owned();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    thread::spawn(move || {
        for client in proxy.incoming() {
            let server = server.clone();
            thread::spawn(move || carry(client.unwrap(), &server));
        }
    });
    let run = ["--url", &url, "run", "-s", "a", "--id", "x", "--", "true"];
    let done = house.done(&run);
    assert_eq!((done.code, &*done.stderr), (0, ""));
}

/// Passes the calls of `client` on, and each release twice.
fn carry(mut client: TcpStream, server: &str) {
    while let Some(call) = message(&mut client) {
        let times = if call.starts_with(b"DELETE ") { 2 } else { 1 };
        let mut answer = Vec::new();
        for _ in 0..times {
            let mut stream = TcpStream::connect(server).unwrap();
            stream.write_all(&call).unwrap();
            answer = message(&mut stream).unwrap();
        }
        client.write_all(&answer).unwrap();
    }
}

/// A call or an answer. `None` at the end of the connection.
fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut byte = [0];
    while !message.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        message.extend(byte);
    }
    let head = String::from_utf8_lossy(&message).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    message.extend(body);
    Some(message)
}
