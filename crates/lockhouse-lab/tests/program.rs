//! `lockhouse-lab`, as people and scripts run it.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

/// An SQLite file, and the program on it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("permits.db")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockhouse-lab"));
        command
            .args(args)
            .env("LOCKHOUSE_URL", format!("sqlite:{}", self.file().display()));
        command
    }

    fn done(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.done(args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn count(&self, of: &str) -> i64 {
        let connection = Connection::open(self.file()).unwrap();
        let sql = format!("SELECT COUNT(*) FROM {of}");
        connection.query_row(&sql, (), |row| row.get(0)).unwrap()
    }

    /// The lab's own tables that are there.
    fn tables(&self) -> i64 {
        self.count("sqlite_master WHERE type = 'table' AND name LIKE '%_lab_%'")
    }
}

#[test]
fn hand_written_locks_break_and_lockhouse_does_not() {
    let place = Place::new();
    let chosen = ["--strategy", "unlocked-count", "--strategy", "lockhouse"];
    let text = place.text(&[&["-o", "json"], &chosen[..]].concat());
    let verdicts: Value = serde_json::from_str(&text).unwrap();
    let [by_hand, lockhouse] = &verdicts["verdicts"].as_array().unwrap()[..] else {
        panic!("{verdicts}")
    };
    assert_eq!(by_hand["strategy"], "unlocked-count");
    assert_eq!(by_hand["broken"][0]["promise"], "P1");
    let shown = by_hand["broken"][0]["shown"].as_str().unwrap();
    assert!(shown.contains("3 of 2 are held"), "{shown}");
    assert_eq!(lockhouse["strategy"], "lockhouse");
    assert_eq!(lockhouse["broken"], serde_json::json!([]));
    assert_eq!(place.tables(), 0);
    assert_eq!(
        place.count("lockhouse_semaphore WHERE deleted_at IS NULL"),
        0
    );
}

#[test]
fn people_get_a_table() {
    let text = Place::new().text(&["--strategy", "insert", "--strategy", "lockhouse"]);
    assert!(text.starts_with("STRATEGY "), "{text}");
    assert!(text.contains("P10: permits are gone for good"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("lockhouse "), "{text}");
    assert!(
        last.contains("nothing") && last.ends_with("0 of 1"),
        "{text}"
    );
}

#[test]
fn without_a_url_it_makes_a_file_of_its_own() {
    let mut command = Place::new().command(&["--strategy", "insert"]);
    let output = command.env_remove("LOCKHOUSE_URL").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_signal_ends_it_and_leaves_no_table() {
    let place = Place::new();
    let mut lab = place.command(&["--strategy", "insert-ttl", "--seconds", "600"]);
    let mut lab: Child = lab.stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !place.file().exists() || place.tables() == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = lab.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let code = lab.wait().unwrap().code();
    assert!(code == Some(0) || code == Some(130), "{code:?}");
    assert_eq!(place.tables(), 0);
}

#[test]
fn unsupported_options_are_usage_errors() {
    let place = Place::new();
    let output = place.done(&["--strategy", "one-statement"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let erred = String::from_utf8(output.stderr).unwrap();
    assert!(erred.contains("unlocked-count"), "{erred}");
    for args in [&["--url", "memory:"][..], &["--seconds", "x"]] {
        let output = place.done(args);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
}

#[test]
fn a_stale_write_replaces_its_successors_unless_there_is_a_gate() {
    let place = Place::new();
    let shown: Value = serde_json::from_str(&place.text(&["--gate", "-o", "json"])).unwrap();
    let expected = [
        (1, false, true),
        (1, true, false),
        (4, false, true),
        (4, true, false),
    ];
    let expected = expected.map(|(capacity, gate, replaced)| {
        serde_json::json!({ "capacity": capacity, "gate": gate, "replaced": replaced })
    });
    assert_eq!(shown["stale_writes"], serde_json::json!(expected));
    assert_eq!(place.tables(), 0);
    let text = place.text(&["--gate"]);
    assert!(text.contains("was refused"), "{text}");
}
