//! The README does what it says: each of its command blocks is run here, as printed.
//!
//! Three things differ from a reader's machine: outside `scripts/test`, `cargo install` and `cargo run` build without
//! optimizing, which takes minutes less; the port is a free one; and the state folder is a fresh one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use lockhouse_testkit::place;

use crate::reader::{Home, free_port, in_text, root};

#[test]
fn the_tour_works_as_printed() {
    let Some(mysql) = place::server_url("LOCKHOUSE_TEST_MYSQL_URL") else {
        return;
    };
    fresh_database(&mysql);
    let home = Home::new();
    let script = blocks("sh tour")
        .join("\n")
        .replace("7117", &free_port().to_string());

    let output = home.bash(&script).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let erred = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{erred}");
    for expected in [
        "backing up under fence 1",
        "end 1",
        "end 2",
        "end 3",
        "job-abc-123",
        "its turn, under fence 2",
        r#"fences: {"gpu":1,"network":1}"#,
        "lockhouse serves",
        "one client has the GPU",
        r#""external_id":"job-2","state":"acquired""#,
        r#""released":true"#,
    ] {
        assert!(
            said.contains(expected),
            "{expected:?} is not in:\n{said}\n{erred}"
        );
    }
    assert!(erred.contains("lockhouse: skipped: "), "{erred}");
    assert!(!said.contains("this is skipped"), "{said}");
}

/// For a reader who skipped the sections before it. The section that needs a database says so.
#[test]
fn each_section_without_a_database_works_by_itself() {
    let home = Home::new();
    let install = &blocks("sh tour")[0];
    assert!(home.bash(install).status().unwrap().success());
    for heading in ["### With a file", "### Waiting", "### With a server"] {
        let section = section(heading);
        let script = in_text("sh tour", &section).join("\n");
        let script = script.replace("7117", &free_port().to_string());
        let state = tempfile::tempdir().unwrap();
        let output = home
            .bash(&script)
            .env("XDG_STATE_HOME", state.path())
            .output();
        let output = output.unwrap();
        let erred = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !script.is_empty(),
            "{heading}: {erred}"
        );
    }
}

/// The printed code equals the compiled code.
#[test]
fn the_rust_snippet_is_that_of_an_example() {
    let [snippet] = &blocks("rust")[..] else {
        panic!("there is one snippet")
    };
    let example = root().join("crates/lockhouse/examples/readme.rs");
    let example = fs::read_to_string(example).unwrap();
    let trimmed = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let example = trimmed(&example);
    for line in trimmed(snippet) {
        assert!(example.contains(&line), "{line:?} is not in the example");
    }
}

#[test]
fn the_first_command_serves() {
    let home = Home::new();
    let [serve] = &blocks("sh")[..1] else {
        panic!("there is a first block")
    };
    assert!(serve.contains("-- serve"), "{serve}");
    let command = format!("exec {} --listen 127.0.0.1:0", serve.trim());
    let mut serving = home.bash(&command).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("http://127.0.0.1:"), "{line:?}");
    let pid = serving.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(serving.wait().unwrap().success());
}

#[test]
fn the_second_command_is_the_one_that_runs_this() {
    let [_, test] = &blocks("sh")[..] else {
        panic!("there are two commands")
    };
    assert_eq!(test.trim(), "scripts/test");
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The text under a heading, up to the next.
fn section(heading: &str) -> String {
    let readme = readme();
    let (_, after) = readme.split_once(&format!("\n{heading}\n")).unwrap();
    let end = after.find("\n##").unwrap_or(after.len());
    after[..end].to_owned() + "\n"
}

/// The README's code blocks that begin with this line after the fence.
fn blocks(kind: &str) -> Vec<String> {
    in_text(kind, &readme())
}

/// The tour's own database, empty.
fn fresh_database(server: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(place::empty_database(server, "lockhouse"));
}
