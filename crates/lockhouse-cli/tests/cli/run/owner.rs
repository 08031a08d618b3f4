//! The session of the owner that a command runs under.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::house::{House, Running, lockhouse, until};
use lockhouse::Timestamp;
use nix::sys::signal::Signal;
use serde_json::Value;

/// The command takes two permits of `b` under its owner, without a TTL, and goes on.
const TAKES_MORE: &str = "set -e; for id in 1 2; do \
    \"$LOCKHOUSE\" acquire -s b --id more-$id --owner \"$LOCKHOUSE_OWNER\" >&2; done; echo up; read line";

/// Under the only permit of `a`.
fn running(house: &House, options: &[&str]) -> Running {
    house.text(&["create", "a", "1"]);
    house.text(&["create", "b", "9"]);
    let run = ["run", "-s", "a", "--ttl", "1s"];
    let args = [&run, options, &["--", "sh", "-c", TAKES_MORE]].concat();
    let mut command = house.command(&args);
    command.env("LOCKHOUSE", lockhouse());
    let mut running = Running::new(command);
    assert_eq!(running.line(), "up");
    running
}

fn time(request: &Value, name: &str) -> Timestamp {
    request[name].as_str().unwrap().parse().unwrap()
}

fn on_a_store_and_through_a_server(test: impl Fn(&House)) {
    test(&House::on_a_store());
    test(&House::behind_a_server());
}

/// One heartbeat keeps all of it for longer than its TTL, and the end of the command frees it.
#[test]
fn permits_acquired_by_the_command_are_held_while_it_runs() {
    on_a_store_and_through_a_server(|house| {
        let mut running = running(house, &[]);
        let began = Timestamp::now();
        let long_after = began.checked_add(Duration::from_secs(3)).unwrap();
        until("it would have lapsed", || Timestamp::now() > long_after);
        // A caller that finds no room ends the lapsed requests.
        assert_eq!(house.done(&["acquire", "-s", "b=8"]).code, 75);
        assert_eq!((house.in_use("a"), house.in_use("b")), (1, 2));
        running.write("end\n");
        assert_eq!(running.end().code, 0);
        assert_eq!((house.in_use("a"), house.in_use("b")), (0, 0));
        let ended = house.json(&["release", "more-1"]);
        assert_eq!(ended["end_reason"], "released");
    });
}

/// P10: within the TTL plus a second, once somebody wants it.
#[test]
fn permits_acquired_by_the_command_are_freed_when_run_is_killed() {
    on_a_store_and_through_a_server(|house| {
        let running = running(house, &[]);
        running.signal(Signal::SIGKILL);
        let killed = Timestamp::now();
        let all = ["acquire", "-s", "a", "-s", "b=9", "--wait", "20s"];
        let granted = time(&house.json(&all), "created_at");
        let took = Duration::try_from(granted.duration_since(killed)).unwrap();
        assert!(took < Duration::from_secs(2), "{took:?}");
        let ended = house.json(&["release", "more-1"]);
        assert_eq!(ended["end_reason"], "owner_dead");
    });
}

/// This command neither releases nor keeps the owner's other requests.
#[test]
fn an_owner_that_is_given_has_no_session_by_this() {
    on_a_store_and_through_a_server(|house| {
        let mut running = running(house, &["--owner", "job"]);
        let heard = house.json(&["heartbeat", "job", "--ttl", "1h"]);
        assert_eq!(heard["began"], true);
        running.write("end\n");
        assert_eq!(running.end().code, 0);
        assert_eq!((house.in_use("a"), house.in_use("b")), (0, 2));
    });
}

/// Somebody may free all that the owner holds. The command is told.
#[test]
fn a_command_is_stopped_after_the_goodbye_of_its_owner() {
    on_a_store_and_through_a_server(|house| {
        let running = running(house, &[]);
        let holders = house.json(&["holders", "b"]);
        let owner = holders["holders"][0]["owner"].as_str().unwrap();
        house.text(&["goodbye", owner]);
        let done = running.end();
        assert_eq!(done.code, 76, "{done:?}");
    });
}

/// Passes on what goes to `server`, until somebody says goodbye to it: that is never answered.
fn never_told_goodbye(server: &str) -> String {
    let server = server.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || pass_on(back.0, back.1));
            thread::spawn(move || pass_on(client, server));
        }
    });
    url
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if bytes.starts_with(b"DELETE /v1/owners/") {
            thread::park();
        }
        if to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// Passes on calls to `server` and their answers, but for those to asks: they are lost.
fn loses_answers_to_asks(server: &str) -> String {
    let server = server.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut server = TcpStream::connect(&server).unwrap();
            thread::spawn(move || -> std::io::Result<()> {
                let mut bytes = [0; 64 * 1024];
                loop {
                    let call = client.read(&mut bytes)?;
                    let is_ask = bytes.starts_with(b"PUT /v1/requests/");
                    server.write_all(&bytes[..call])?;
                    let answer = server.read(&mut bytes)?;
                    if call == 0 || answer == 0 || is_ask {
                        return Ok(());
                    }
                    client.write_all(&bytes[..answer])?;
                }
            });
        }
    });
    url
}

/// P10: nobody else knows its id, and it has no time to live.
#[test]
fn a_lost_answer_with_a_generated_id_is_released() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    let losing = House::at(&loses_answers_to_asks(house.url()));
    let done = losing.done(&["acquire", "-s", "a"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert_eq!(house.in_use("a"), 0);
    let done = losing.done(&["acquire", "-s", "a", "--id", "known"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert_eq!(house.in_use("a"), 1, "who asks again with that id has it");
}

/// The permits were released before, and the session expires by itself.
#[test]
fn a_goodbye_that_hangs_is_no_failure() {
    let house = House::behind_a_server();
    let slow = House::at(&never_told_goodbye(house.url()));
    let done = slow.run(&[], "exit 5").end();
    assert_eq!(done.code, 5);
    assert!(!done.stderr.contains("could not be released"), "{done:?}");
    assert!(done.stderr.contains("and expires"), "{done:?}");
    assert_eq!(house.in_use("a"), 0);
}
