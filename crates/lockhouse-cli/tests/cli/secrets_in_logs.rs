//! No token is in a log, however much is logged, nor in a metric.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::house::{Done, House, Running};
use nix::sys::signal::Signal;

/// The answer to `call`, which ends its connection.
fn answer(url: &str, call: &str) -> String {
    let (_, address) = url.rsplit_once("//").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(call.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn traced(house: &House, token: Option<&str>, args: &[&str]) -> std::process::Command {
    let mut command = house.command(args);
    command.env("RUST_LOG", "trace");
    command.envs(token.map(|token| ("LOCKHOUSE_TOKEN", token)));
    command
}

fn has_none_of(secrets: &[&str], what: &str, text: &str) {
    for secret in secrets {
        assert!(!text.contains(secret), "{what} has {secret}");
        // Nor a part that would help to guess the rest.
        assert!(
            !text.contains(&secret[3..23]),
            "{what} has a part of {secret}"
        );
    }
}

#[test]
fn no_log_and_no_metric_has_a_token() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let admin = house.text(&["token", "create", "admin", "--grant", "admin:*"]);
    let admin = admin.trim();
    // Well-formed, and of no token: of another house.
    let stranger = House::on_a_store().text(&["token", "create", "x", "--grant", "read:*"]);
    let stranger = stranger.trim();
    let audit = house.path("audit.log");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--audit-log"];
    let serve = [&serve[..], &[audit.to_str().unwrap()]].concat();
    let mut server = Running::new(traced(&house, None, &serve));
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    let mut secrets = vec![admin, stranger];
    let call = |token: &str, args: &[&str]| -> Done {
        let args = [&["--url", url], args].concat();
        traced(&house, Some(token), &args).output().unwrap().into()
    };
    let made = call(admin, &["token", "create", "ci", "--grant", "hold:a"]);
    assert_eq!(made.code, 0, "{made:?}");
    let ci = made.stdout.trim().to_owned();
    secrets.push(&ci);
    let held = call(&ci, &["run", "-s", "a", "--", "true"]);
    assert_eq!(held.code, 0, "{held:?}");
    let refused = call(stranger, &["list"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    let forbidden = call(&ci, &["delete", "a"]);
    assert_ne!(forbidden.code, 0, "{forbidden:?}");
    for (what, done) in [
        ("the log of token create", &made),
        ("the log of run", &held),
        ("the log of a refused call", &refused),
        ("the log of a forbidden call", &forbidden),
    ] {
        assert!(
            done.stderr.contains("TRACE"),
            "{what} says nothing: {done:?}"
        );
        has_none_of(&secrets, what, &done.stderr);
    }
    let head = "host: localhost\r\nconnection: close\r\n";
    let login = format!(r#"{{"token":"{ci}"}}"#);
    let logged_in = answer(
        url,
        &format!(
            "POST /v1/session HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{login}",
            login.len()
        ),
    );
    assert!(logged_in.starts_with("HTTP/1.1 204"), "{logged_in}");
    let cookie = logged_in.split("lockhouse_session=").nth(1).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let listed = answer(
        url,
        &format!("GET /v1/requests HTTP/1.1\r\n{head}cookie: lockhouse_session={cookie}\r\n\r\n"),
    );
    assert!(listed.starts_with("HTTP/1.1 200"), "{listed}");
    secrets.push(cookie);
    let metrics = answer(
        url,
        &format!("GET /metrics HTTP/1.1\r\n{head}authorization: Bearer {admin}\r\n\r\n"),
    );
    assert!(metrics.contains("lockhouse_http_requests"), "{metrics}");
    has_none_of(&secrets, "/metrics", &metrics);
    server.signal(Signal::SIGTERM);
    let served = server.end();
    assert!(served.stderr.contains("DEBUG"), "{served:?}");
    has_none_of(&secrets, "the log of the server", &served.stderr);
    let audited = std::fs::read_to_string(Path::new(&audit)).unwrap();
    assert!(audited.contains("create_token"), "{audited}");
    has_none_of(&secrets, "the audit log", &audited);
}
