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
fn a_terminal_gets_a_table() {
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

/// Whether there is a Redis server. Without one the test is left out; a full run leaves nothing out.
fn has_redis() -> bool {
    let version = Command::new("redis-server").arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    let is_full = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
    assert!(
        is_there || !is_full,
        "redis-server is not installed, and a full run leaves nothing out; use scripts/test"
    );
    is_there
}

#[test]
fn a_lock_on_redis_breaks_in_its_scene_and_lockhouse_does_not() {
    if !has_redis() {
        return;
    }
    let place = Place::new();
    let scene = ["redis", "--scene", "late-release"];
    let locks = ["--lock", "del", "--lock", "lockhouse"];
    let text = place.text(&[&scene[..], &locks, &["-o", "json"]].concat());
    let played: Value = serde_json::from_str(&text).unwrap();
    let [del, lockhouse] = &played["scenes"].as_array().unwrap()[..] else {
        panic!("{played}")
    };
    assert_eq!([&del["lock"], &del["scene"]], ["del", "late-release"]);
    let broken = del["broken"].as_array().unwrap();
    let promises: Vec<_> = broken.iter().map(|broken| &broken["promise"]).collect();
    assert_eq!(promises, ["P1", "P4"]);
    let last = del["happened"].as_array().unwrap().last().unwrap();
    let last = last.as_str().unwrap();
    assert!(last.ends_with("client 3 gets a permit for 60 s"), "{del}");
    assert_eq!(lockhouse["lock"], "lockhouse");
    assert_eq!(lockhouse["broken"], serde_json::json!([]));
    let text = place.text(&[&scene[..], &locks[..2]].concat());
    assert!(
        text.contains("BROKEN P1: more permits are held than there are"),
        "{text}"
    );
    assert!(
        text.contains("why: DEL deletes the key of the next holder"),
        "{text}"
    );
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("del ") && last.contains("P4"), "{text}");
}

#[test]
fn a_signal_ends_the_scenes_and_their_servers() {
    if !has_redis() {
        return;
    }
    let place = Place::new();
    let temporary = place.folder.path();
    let mut lab = place.command(&["redis", "--scene", "paused-holder", "--lock", "redlock"]);
    let mut lab = lab
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Redis changes its command line; it stays in its folder.
    let servers = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let folders = processes.filter_map(|it| std::fs::read_link(it.path().join("cwd")).ok());
        folders
            .filter(|folder| folder.starts_with(temporary))
            .count()
    };
    let begun = Instant::now();
    while servers() < 5 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "they do not start"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = lab.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130));
    assert_eq!(servers(), 0);
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0);
}

#[test]
fn unsupported_options_of_redis_are_usage_errors() {
    let place = Place::new();
    for (args, code, said) in [
        (&["redis", "--lock", "zookeeper"][..], 64, "redlock-counts"),
        (&["redis", "--scene", "flood"], 64, "jumped-clock"),
        (
            &["redis", "--lock", "del", "--scene", "reordered"],
            64,
            "leave out --scene",
        ),
        (&["--gate", "redis"], 64, "redis"),
        (
            &["redis", "--server", "/nowhere/redis-server"],
            69,
            "--server",
        ),
    ] {
        let output = place.done(args);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let erred = String::from_utf8(output.stderr).unwrap();
        assert!(erred.contains(said), "{erred}");
    }
}
