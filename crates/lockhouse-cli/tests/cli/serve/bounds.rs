//! Bounds on the descriptors and the memory that strangers can make a server take.

#![allow(clippy::print_stdout, reason = "the figures of a run by hand")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::house::{House, Running, lockhouse, until};

/// How long a call may take that waits for nothing.
const SOON: Duration = Duration::from_secs(5);

const MIB: u64 = 1024 * 1024;

/// How many idle connections a flood keeps open, as one process may have only so many files. More than a server of a test
/// has room for.
const KEPT: usize = 16_000;

/// A server that was started under `ulimit` with `limit`, and its address.
fn serve(house: &House, limit: &str) -> (Running, String) {
    serve_on(house, limit, &["--listen", "127.0.0.1:0"])
}

pub(super) fn serve_on(house: &House, limit: &str, args: &[&str]) -> (Running, String) {
    let script = format!("ulimit {limit} && exec \"$@\"");
    let lockhouse = lockhouse();
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script, "sh", &lockhouse, "serve"])
        .args(args)
        .env("LOCKHOUSE_URL", house.url());
    let mut server = Running::new(command);
    let line = server.line();
    let (_, address) = line.rsplit_once("://").expect(&line);
    (server, address.to_owned())
}

fn send(address: &str, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let host = format!("host: {address}\r\ncontent-type: application/json");
    let length = body.len();
    let call =
        format!("{method} {path} HTTP/1.1\r\n{host}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(call.as_bytes()).unwrap();
    stream
}

/// The answer to one call on a new connection.
fn call(address: &str, method: &str, path: &str, body: &str) -> String {
    answer(&mut send(address, method, path, body))
}

/// One answer, which may come in several pieces.
fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut piece).expect("an answer in time");
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer);
        if read == 0 || is_whole(&text) {
            return text.into_owned();
        }
    }
}

fn is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

#[track_caller]
fn is_ok(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

/// A server of limit `limit` with `many` who wait for `a`, which `x` holds.
fn crowded(house: &House, limit: &str, many: usize) -> (Running, String, Vec<TcpStream>) {
    lockhouse_server::raise_open_files_limit().unwrap();
    let (server, address) = serve(house, limit);
    is_ok(&call(
        &address,
        "PUT",
        "/v1/semaphores/a",
        r#"{"capacity":1}"#,
    ));
    let held = r#"{"permits":[{"semaphore":"a"}],"ttl_ms":600000}"#;
    is_ok(&call(&address, "PUT", "/v1/requests/x", held));
    let wait = r#"{"permits":[{"semaphore":"a"}],"wait_ms":600000}"#;
    let waiters = (0..many).map(|n| send(&address, "PUT", &format!("/v1/requests/y{n}"), wait));
    let waiters = waiters.collect();
    (server, address, waiters)
}

fn waiting(address: &str) -> u64 {
    let shown = call(address, "GET", "/v1/semaphores/a", "");
    let (_, body) = shown.split_once("\r\n\r\n").expect(&shown);
    let shown: serde_json::Value = serde_json::from_str(body).expect(body);
    shown["waiting"].as_u64().unwrap()
}

fn a_holder_can_call(address: &str) {
    is_ok(&call(address, "GET", "/healthz", ""));
    is_ok(&call(
        address,
        "POST",
        "/v1/requests/x/renew",
        r#"{"ttl_ms":50000}"#,
    ));
    is_ok(&call(address, "DELETE", "/v1/requests/x", ""));
}

#[test]
fn waiters_leave_descriptors_for_holders() {
    let house = House::on_a_store();
    let (_server, address, waiters) = crowded(&house, "-n 256", 400);
    until("as many wait as may", || waiting(&address) == 144);
    let mut refused = waiters.into_iter().skip(200).collect::<Vec<_>>();
    let last = answer(refused.last_mut().unwrap());
    assert!(last.starts_with("HTTP/1.1 503 "), "{last}");
    assert!(last.contains("\"overloaded\""), "{last}");
    a_holder_can_call(&address);
}

#[test]
fn the_soft_limit_of_open_files_is_raised() {
    let house = House::on_a_store();
    let (_server, address, _waiters) = crowded(&house, "-Sn 1024", 1_100);
    until("all wait", || waiting(&address) == 1_100);
    a_holder_can_call(&address);
}

/// The most that may wait at one server, unless it is told otherwise.
#[test]
fn ten_thousand_wait_in_little_memory_and_a_holder_can_call() {
    let house = House::on_a_store();
    let (server, address, _waiters) = crowded(&house, "-Sn 1024", 10_000);
    until("all wait", || waiting(&address) == 10_000);
    let memory = memory(&server);
    println!("10,000 waiters: {} MiB", memory / MIB);
    assert!(memory < 600 * MIB, "{} MiB", memory / MIB);
    let refused = call(
        &address,
        "PUT",
        "/v1/requests/z",
        r#"{"permits":[{"semaphore":"a"}],"wait_ms":1000}"#,
    );
    assert!(refused.contains("\"overloaded\""), "{refused}");
    a_holder_can_call(&address);
}

#[test]
fn idle_connections_make_room_for_others() {
    let house = House::on_a_store();
    let (_server, address, _) = crowded(&house, "-n 256", 0);
    let idle = (0..400).map(|_| TcpStream::connect(&address).unwrap());
    let _idle: Vec<_> = idle.collect();
    a_holder_can_call(&address);
}

/// Each sends the begin of a head, and no more.
#[test]
fn a_caller_is_not_kept_waiting_by_a_thousand_half_heads() {
    let house = House::on_a_store();
    let (_server, address, _) = crowded(&house, "-n 256", 0);
    let _half = half_sent(&address, b"GET /v1/semaphores/a HT");
    let begun = Instant::now();
    is_ok(&call(&address, "GET", "/healthz", ""));
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    a_holder_can_call(&address);
}

/// A thousand connections on which `begin` was sent.
pub(super) fn half_sent(address: &str, begin: &[u8]) -> Vec<TcpStream> {
    lockhouse_server::raise_open_files_limit().unwrap();
    let half = (0..1_000).map(|_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have closed it meanwhile.
        let _ = stream.write_all(begin);
        stream
    });
    half.collect()
}

/// A flood of `many` idle connections on a server of limit `limit`, while a holder renews by another connection.
fn idle_flood(many: usize, limit: &str) {
    lockhouse_server::raise_open_files_limit().unwrap();
    let house = House::on_a_store();
    // On all addresses of loopback, as one has only so many ports.
    let (server, address) = serve_on(&house, limit, &["--listen", "0.0.0.0:0", "--insecure"]);
    let (_, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    let address = format!("127.0.0.1:{port}");
    let define = r#"{"capacity":1}"#;
    is_ok(&call(&address, "PUT", "/v1/semaphores/a", define));
    let held = r#"{"permits":[{"semaphore":"a"}],"ttl_ms":60000}"#;
    let mut holder = send(&address, "PUT", "/v1/requests/x", held);
    is_ok(&answer(&mut holder));
    let before = memory(&server);
    let floods: Vec<_> = (0..8)
        .map(|part| {
            thread::spawn(move || {
                let (mut made, mut open) = (0, VecDeque::new());
                for n in (part..many).step_by(8) {
                    let host = Ipv4Addr::new(127, 0, 0, u8::try_from(1 + n / 20_000).unwrap());
                    // Those that find no room for so long give up.
                    let idle = TcpStream::connect_timeout(&SocketAddr::from((host, port)), SOON);
                    made += usize::from(idle.is_ok());
                    open.extend(idle);
                    // The server has closed the oldest: it has room for fewer.
                    if open.len() > KEPT / 8 {
                        open.pop_front();
                    }
                }
                (made, open)
            })
        })
        .collect();
    let (mut renewals, mut slowest, mut most) = (0, Duration::ZERO, before);
    let renew =
        "POST /v1/requests/x/renew HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n";
    while floods.iter().any(|flood| !flood.is_finished()) {
        let begun = Instant::now();
        holder.write_all(renew.as_bytes()).unwrap();
        is_ok(&answer(&mut holder));
        slowest = slowest.max(begun.elapsed());
        renewals += 1;
        most = most.max(memory(&server));
        thread::sleep(Duration::from_millis(20));
    }
    let floods: Vec<_> = floods
        .into_iter()
        .map(|flood| flood.join().unwrap())
        .collect();
    let idle: usize = floods.iter().map(|(made, _)| made).sum();
    let evicted = metric(&address, "lockhouse_http_connections_evicted_total");
    println!(
        "{idle} of {many} idle connections were made and {evicted} made room; {renewals} renewals meanwhile, the slowest in \
         {slowest:?}; {} MiB more",
        (most - before) / MIB
    );
    assert!(renewals > 10 && idle > many / 2, "{idle} {renewals}");
    assert!(evicted > 0);
    assert!(most - before < 64 * MIB + many as u64 * 8 * 1024);
    // Others come in again.
    is_ok(&call(&address, "DELETE", "/v1/requests/x", ""));
}

/// The value of a metric without labels.
fn metric(address: &str, name: &str) -> u64 {
    let metrics = call(address, "GET", "/metrics", "");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.expect(name).trim().parse().unwrap()
}

/// 2,000 connections, unless `LOCKHOUSE_TEST_IDLE` is set. With it a server has room for about 12,000.
#[test]
fn idle_connections_make_room_in_order_and_a_holder_renews_meanwhile() {
    match std::env::var("LOCKHOUSE_TEST_IDLE") {
        Ok(many) => idle_flood(many.parse().unwrap(), "-n 12000"),
        Err(_) => idle_flood(2_000, "-n 512"),
    }
}

/// The memory of `server`, in bytes.
fn memory(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// The body of an ask for 64 semaphores with names of 255 bytes, each of which has `capacity`.
fn ask_for_many(address: &str, capacity: u32) -> String {
    let names = (0..64).map(|n| format!("{n:0>255}"));
    let mut permits = Vec::new();
    for name in names {
        let body = format!(r#"{{"capacity":{capacity}}}"#);
        is_ok(&call(
            address,
            "PUT",
            &format!("/v1/semaphores/{name}"),
            &body,
        ));
        permits.push(serde_json::json!({"semaphore": name}));
    }
    serde_json::json!({"permits": permits}).to_string()
}

#[test]
fn refused_asks_take_no_memory() {
    let house = House::on_a_store();
    let (server, address) = serve(&house, "-n 1024");
    let ask = ask_for_many(&address, 1);
    is_ok(&call(&address, "PUT", "/v1/requests/x", &ask));
    let mut stream = send(&address, "GET", "/healthz", "");
    is_ok(&answer(&mut stream));
    let mut before = 0;
    for n in 0..1_200 {
        // Some, so that memory is taken that is used again.
        if n == 200 {
            before = memory(&server);
        }
        let length = ask.len();
        let head = "host: 127.0.0.1\r\ncontent-type: application/json";
        let call = format!(
            "PUT /v1/requests/y{n} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{ask}"
        );
        stream.write_all(call.as_bytes()).unwrap();
        let refused = answer(&mut stream);
        assert!(refused.starts_with("HTTP/1.1 423 "), "{refused}");
    }
    let grown = memory(&server).saturating_sub(before);
    assert!(
        grown < 8 * MIB,
        "1,000 refused asks took {} MiB",
        grown / MIB
    );
}

/// Each has sent all of a long body but its last byte, which the server holds until the body is late.
#[test]
fn clients_that_send_unfinished_bodies_take_little_memory() {
    let house = House::on_a_store();
    let (server, address, _) = crowded(&house, "-n 1024", 0);
    let before = memory(&server);
    let body = " ".repeat(64 * 1024 - 1);
    let writers = (0..600).map(|n| {
        let mut writer = TcpStream::connect(&address).unwrap();
        let head = "host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 65536";
        let begin = format!("PUT /v1/requests/w{n} HTTP/1.1\r\n{head}\r\n\r\n{body}");
        writer.write_all(begin.as_bytes()).unwrap();
        writer
    });
    let mut writers: Vec<_> = writers.collect();
    a_holder_can_call(&address);
    let grown = memory(&server).saturating_sub(before);
    println!("600 writers: {} MiB more", grown / MIB);
    assert!(grown < 120 * MIB, "600 writers took {} MiB", grown / MIB);
    // They are not waited for without end.
    for writer in &mut writers {
        writer.set_read_timeout(Some(4 * SOON)).unwrap();
        let late = answer(writer);
        assert!(
            late.is_empty() || late.starts_with("HTTP/1.1 408 "),
            "{late}"
        );
    }
}

#[test]
fn clients_that_do_not_read_take_little_memory() {
    let house = House::on_a_store();
    let (server, address) = serve(&house, "-n 1024");
    let ask = ask_for_many(&address, 1_000);
    for n in 0..400 {
        is_ok(&call(&address, "PUT", &format!("/v1/requests/x{n}"), &ask));
    }
    let before = memory(&server);
    let mut readers = Vec::new();
    for _ in 0..40 {
        let mut reader = send(&address, "GET", "/v1/requests?limit=1000", "");
        // Several by each connection, so that the system's buffers do not hold them.
        for _ in 0..20 {
            let again = "GET /v1/requests?limit=1000 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
            reader.write_all(again.as_bytes()).unwrap();
        }
        // The answer has begun.
        reader.read_exact(&mut [0; 15]).unwrap();
        readers.push(reader);
    }
    is_ok(&call(&address, "GET", "/healthz", ""));
    let mut last = memory(&server);
    for _ in 0..20 {
        is_ok(&call(&address, "GET", "/v1/requests?limit=1000", ""));
        last = last.max(memory(&server));
    }
    let grown = last.saturating_sub(before);
    println!("40 readers: {} MiB more", grown / MIB);
    assert!(grown < 160 * MIB, "40 readers took {} MiB", grown / MIB);
}
