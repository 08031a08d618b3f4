//! The output on stdout.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use crate::house::{Done, House, Running};
use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName};
use serde_json::Value;
use tokio::task::JoinSet;

/// The answer of the HTTP API to a GET.
fn get(house: &House, path: &str) -> Value {
    let address = house.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let call = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(call.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
fn json_is_what_the_http_api_answers() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "3"]);
    house.text(&["resize", "a", "2", "--note", "n"]);
    let acquired = house.json(&["acquire", "-s", "a", "--id", "job", "--ttl", "1h"]);
    for json in [House::json, House::json_of_store] {
        let json = |args| json(&house, args);
        assert_eq!(json(&["show", "a"]), get(&house, "/v1/semaphores/a"));
        assert_eq!(json(&["list"]), get(&house, "/v1/semaphores"));
        assert_eq!(
            json(&["history", "a"]),
            get(&house, "/v1/semaphores/a/history")
        );
        assert_eq!(
            json(&["holders", "a"]),
            get(&house, "/v1/semaphores/a/holders")
        );
        assert_eq!(
            json(&["line", "a"]),
            get(&house, "/v1/semaphores/a/waiting")
        );
    }
    assert_eq!(acquired, get(&house, "/v1/requests/job"));
    let problem = get(&house, "/v1/semaphores/b");
    let done = house.done(&["show", "b", "-o", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&done.stderr).unwrap(),
        problem
    );
}

#[test]
fn listings_have_all_pages() {
    let house = House::behind_a_server();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lockhouse = Lockhouse::connect(house.store()).await.unwrap();
        lockhouse.define("many", 2000).await.unwrap();
        let mut calls = JoinSet::new();
        for i in 0..1001 {
            let lockhouse = lockhouse.clone();
            calls.spawn(async move {
                let name = format!("semaphore-{i}");
                lockhouse.define(&name, 1).await.unwrap();
                let id = ExternalId::parse(format!("job-{i}")).unwrap();
                let permit = (SemaphoreName::parse("many").unwrap(), Count::ONE);
                let ask = Ask::new(id, [permit]).unwrap();
                lockhouse.acquire(ask, Default::default()).await.unwrap();
            });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    });
    for json in [House::json, House::json_of_store] {
        let rows = |args, of| json(&house, args)[of].as_array().unwrap().len();
        assert_eq!(rows(&["list"], "semaphores"), 1002);
        assert_eq!(rows(&["holders"], "holders"), 1001);
        assert_eq!(rows(&["holders", "many"], "holders"), 1001);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    for args in [
        &["list"][..],
        &["show", "a", "-o", "json"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut command = house.command(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = Done::from(command.stdout(writer).output().unwrap());
        assert_eq!((done.code, &*done.stderr), (0, ""), "{args:?}");
    }
}

/// Stdouts that take nothing: a pipe that nobody reads, and a disk without room.
fn nowhere() -> [Stdio; 2] {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    [writer.into(), full.into()]
}

/// P10: nobody knows the id, so nobody could give the permit back.
#[test]
fn unprinted_permits_with_a_generated_id_are_released() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    for format in ["table", "json"] {
        for stdout in nowhere() {
            let mut command = house.command(&["acquire", "-s", "a", "-o", format]);
            let done = Done::from(command.stdout(stdout).output().unwrap());
            assert_eq!(done.code, 1, "{done:?}");
            assert!(done.stderr.contains("cannot write to stdout"), "{done:?}");
            assert!(done.stderr.contains("were released"), "{done:?}");
            assert_eq!(house.in_use("a"), 0);
        }
    }
}

/// P5: the caller knows the id, and a retry with it finds the grant.
#[test]
fn unprinted_permits_with_a_chosen_id_stay_held() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    for stdout in nowhere() {
        let mut command = house.command(&["acquire", "-s", "a", "--id", "job"]);
        let done = Done::from(command.stdout(stdout).output().unwrap());
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.stderr.contains("\"job\" is held"), "{done:?}");
        assert_eq!(house.in_use("a"), 1);
    }
}

#[test]
fn completions_leave_internal_commands_out() {
    let house = House::on_a_store();
    for shell in ["bash", "zsh", "fish"] {
        let script = house.text(&["completions", shell]);
        assert!(script.contains("holders"), "{shell}");
        assert!(!script.contains("guard"), "{shell}");
    }
    assert_eq!(house.done(&["completions", "edlin"]).code, 64);
}

#[test]
fn without_a_url_the_permits_live_in_the_state_folder() {
    let house = House::on_a_store();
    let homeless = || {
        let mut command = house.command(&["create", "a", "1"]);
        for name in ["LOCKHOUSE_URL", "XDG_STATE_HOME", "HOME"] {
            command.env_remove(name);
        }
        command
    };
    let file = "lockhouse/lockhouse.db";

    let state = house.path("state");
    let done = homeless().env("XDG_STATE_HOME", &state).output().unwrap();
    assert_eq!(Done::from(done).code, 0);
    assert!(state.join(file).exists());

    let home = house.path("home");
    let done = homeless()
        .env("HOME", &home)
        .env("LOCKHOUSE_URL", "")
        .output();
    assert_eq!(Done::from(done.unwrap()).code, 0);
    assert!(home.join(".local/state").join(file).exists());

    let done = Done::from(homeless().output().unwrap());
    assert_eq!(done.code, 64);
    assert!(done.stderr.contains("no home folder"), "{done:?}");
}

#[test]
fn logs_go_to_stderr_if_asked_for() {
    let house = House::on_a_store();
    let mut command = house.command(&["list"]);
    command.env("RUST_LOG", "trace");
    let done = Running::new(command).end();
    assert!(done.stdout.starts_with("NAME"), "{done:?}");
    house.text(&["create", "a", "1"]);
    assert!(house.done(&["list"]).stderr.is_empty());
}

/// A file that is not there is read as an empty store.
#[test]
fn reading_commands_create_no_file() {
    let house = House::on_a_store();
    let file = house.path("folder/permits.db");
    let url = format!("sqlite:{}", file.display());
    for (verb, code) in [
        (&["list"][..], 0),
        (&["holders"], 0),
        (&["verify"], 0),
        (&["show", "a"], 1),
        (&["history", "a"], 1),
        (&["holders", "a"], 1),
        (&["line", "a"], 1),
        (&["request", "a"], 1),
        (&["template", "list"], 0),
        (&["token", "list"], 0),
    ] {
        let args = [&["--url", &url][..], verb].concat();
        let done = house.done(&args);
        assert_eq!(done.code, code, "{verb:?}: {done:?}");
        assert!(
            done.stderr.contains("does not exist yet; lockhouse create"),
            "{done:?}"
        );
        let done = house.done(&[&["-o", "json"], &args[..]].concat());
        assert_eq!(
            (done.code, done.stderr.is_empty()),
            (code, code == 0),
            "{done:?}"
        );
        assert!(!file.parent().unwrap().exists(), "{verb:?}");
    }
    house.text(&["--url", &url, "create", "a", "1"]);
    assert!(file.exists());
    assert!(house.text(&["--url", &url, "list"]).contains("\na "));
}

/// Of a server that somebody else may run, and of a database.
#[test]
fn the_words_of_a_server_do_nothing_to_the_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let detail = r"\u001b]0;title\u0007\u001b[2J\u009b2Jno\r\nlockhouse: all is well";
        let body = format!(
            r#"{{"type":"urn:lockhouse:problem:forbidden","title":"No","status":403,"code":"forbidden","detail":"{detail}"}}"#
        );
        let length = body.len();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\nconnection: close";
            let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    let done = House::on_a_store().done(&["--url", &url, "list"]);
    assert_eq!(done.code, 1, "{done:?}");
    let line = done.stderr.strip_suffix('\n').unwrap();
    assert!(!line.contains(char::is_control), "{done:?}");
    assert!(line.ends_with("no lockhouse: all is well"), "{done:?}");
}

#[test]
fn serve_prints_json_if_asked_to() {
    let house = House::on_a_store();
    let mut server = house.start(&["serve", "--listen", "127.0.0.1:0", "-o", "json"]);
    let line: serde_json::Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(line["store"], house.store());
    let url = line["url"].as_str().unwrap();
    house.text(&["--url", url, "create", "a", "1"]);
}
