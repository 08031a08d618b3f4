//! How `lockhouse serve` starts and stops, and the store and the port that it prints.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use crate::house::{House, until};
use nix::sys::signal::Signal;

fn address(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

#[test]
fn serve_prints_the_store_and_the_port() {
    let house = House::on_a_store();
    let mut server = house.start(&["serve", "--listen", "127.0.0.1:0"]);
    let line = server.line();
    let begin = format!("lockhouse serves {} on http://127.0.0.1:", house.url());
    assert!(line.starts_with(&begin), "{line}");
    let url = line.rsplit_once(' ').unwrap().1;
    house.text(&["create", "a", "1", "--url", url]);
    assert_eq!(house.in_use("a"), 0, "it is the same store");
}

#[test]
fn a_loopback_server_is_never_called_by_a_proxy() {
    let house = House::behind_a_server();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let by_proxy = |args: &[&str]| {
        let mut command = house.command(args);
        for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
            command.env(variable, &address);
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        command
    };
    let listed = by_proxy(&["list"]).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    // Other servers are.
    let mut call = by_proxy(&["list", "--url", "http://lockhouse.example:7117"]);
    let mut call = call.spawn().unwrap();
    let (stream, _) = proxy.accept().unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.contains("http://lockhouse.example:7117/"), "{line}");
    call.kill().unwrap();
    call.wait().unwrap();
}

#[test]
fn a_signal_stops_it_in_order() {
    let house = House::on_a_store();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (server, url) = house.serve("127.0.0.1:0");
        server.signal(signal);
        let done = server.end();
        assert_eq!(done.code, 0, "{done:?}");
        assert!(TcpStream::connect(address(&url)).is_err());
    }
}

#[test]
fn a_second_signal_stops_it_at_once() {
    let house = House::on_a_store();
    let (server, url) = house.serve("127.0.0.1:0");
    let address = address(&url);
    let mut call = TcpStream::connect(address).unwrap();
    let unfinished = "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\n\
                      content-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    call.write_all(unfinished.as_bytes()).unwrap();
    // A call on a later connection is read later.
    house.text(&["list", "--url", &url]);
    server.signal(Signal::SIGTERM);
    until("it takes no more calls", || {
        TcpStream::connect(address).is_err()
    });
    server.signal(Signal::SIGTERM);
    assert_eq!(server.end().code, 143);
}

#[test]
fn a_taken_port_is_reported() {
    let house = House::on_a_store();
    let (_server, url) = house.serve("127.0.0.1:0");
    let done = house.done(&["serve", "--listen", address(&url)]);
    assert_eq!((done.code, &*done.stdout), (1, ""));
    let begin = format!("lockhouse: cannot listen on {}: ", address(&url));
    assert!(done.stderr.starts_with(&begin), "{done:?}");
}

#[test]
fn serve_accepts_a_store_in_memory() {
    let house = House::on_a_store();
    let serve = ["serve", "--url", "memory:", "--listen", "127.0.0.1:0"];
    let mut server = house.start(&serve);
    let line = server.line();
    let url = line.strip_prefix("lockhouse serves memory: on ").unwrap();
    house.text(&["create", "a", "1", "--url", url]);
    house.text(&["run", "-s", "a", "--url", url, "--", "true"]);
}

/// P11, from outside: a waiter of higher priority is served first, and waiters above the limit are refused.
#[test]
fn waiters_are_limited_and_served_by_priority() {
    let house = House::on_a_store();
    let mut server = house.start(&["serve", "--listen", "127.0.0.1:0", "--max-waiters", "2"]);
    let url = server.line().rsplit_once(" on ").unwrap().1.to_owned();
    house.text(&["create", "a", "1", "--url", &url]);
    house.text(&["acquire", "-s", "a", "--id", "held", "--url", &url]);
    let waiting = || house.json(&["show", "a", "--url", &url])["waiting"].clone();
    let wait = |id: &str, priority: &str, wait: &str| {
        let args = ["acquire", "-s", "a", "--wait", wait, "--url", &url];
        let its = ["--id", id, "--priority", priority];
        house.start(&[&args[..], &its].concat())
    };
    let low = wait("low", "-1", "1m");
    until("one waits", || waiting() == 1);
    let high = wait("high", "1", "1m");
    until("two wait", || waiting() == 2);
    // It asks again and again for as long as it would have waited.
    let much = wait("much", "100", "1s").end();
    assert_eq!(much.code, 75, "{much:?}");
    assert_eq!(waiting(), 2);
    house.text(&["release", "held", "--url", &url]);
    assert_eq!(high.end().code, 0);
    assert_eq!(waiting(), 1);
    house.text(&["release", "high", "--url", &url]);
    assert_eq!(low.end().code, 0);
}
