//! The environment that `run` gives its command, and its exit code, which is the command's.

use std::time::{Duration, Instant};

use crate::house::{Done, House, lockhouse, runs, until};
use serde_json::{Value, json};

fn done(house: &House, script: &str) -> Done {
    house.text(&["create", "a", "1"]);
    house.done(&["run", "-s", "a", "--", "sh", "-c", script])
}

#[test]
fn the_command_knows_its_id_and_its_one_fence() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "5"]);
        let script = "echo $LOCKHOUSE_EXTERNAL_ID $LOCKHOUSE_FENCE $LOCKHOUSE_FENCES";
        let run = ["run", "-s", "a=2", "--id", "job", "--", "sh", "-c", script];
        assert_eq!(house.text(&run), "job 1 {\"a\":1}\n");
    }
}

#[test]
fn lockhouse_fence_is_unset_with_several_semaphores() {
    let house = House::on_a_store();
    for name in ["a", "b \"quoted\""] {
        house.text(&["create", name, "5"]);
        house.text(&["acquire", "-s", name]);
    }
    house.text(&["acquire", "-s", "a"]);
    let inner = "echo ${LOCKHOUSE_FENCE-none} $LOCKHOUSE_FENCES";
    let args = [
        "run",
        "-s",
        "a",
        "-s",
        "b \"quoted\"",
        "--",
        "sh",
        "-c",
        inner,
    ];
    let mut command = house.command(&args);
    // As it is inside of another run.
    command.env("LOCKHOUSE_FENCE", "17");
    let output = Done::from(command.output().unwrap());
    let (fence, fences) = output.stdout.split_once(' ').unwrap();
    assert_eq!(fence, "none");
    let fences: Value = serde_json::from_str(fences).unwrap();
    assert_eq!(fences, json!({"a": 3, "b \"quoted\"": 2}));
}

#[test]
fn the_default_owner_is_this_process() {
    let house = House::on_a_store();
    let mut run = house.run(&[], "echo up; cat");
    assert_eq!(run.line(), "up");
    let holders = house.json(&["holders", "a"]);
    let owner = holders["holders"][0]["owner"].as_str().unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let pid = run.pid();
    assert!(owner.contains(&format!("@{host}:{pid}:")), "{owner}");
    assert!(owner.ends_with(" sh -c echo up; cat"), "{owner}");
    assert_eq!(holders["holders"][0]["ttl_ms"], 30_000);
    run.close_stdin();
    assert_eq!(run.end().code, 0);

    let mut run = house.run(&["--owner", "ann"], "echo up; cat");
    assert_eq!(run.line(), "up");
    assert_eq!(house.json(&["holders", "a"])["holders"][0]["owner"], "ann");
    run.close_stdin();
    assert_eq!(run.end().code, 0);
}

#[test]
fn the_exit_is_that_of_the_command_and_nothing_stays_held() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 7", 7),
            ("exit 255", 255),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
        ] {
            let done = done(&house, script);
            assert_eq!((done.code, &*done.stderr), (code, ""), "{script}");
            assert_eq!(house.in_use("a"), 0, "{script}");
        }
    }
}

#[test]
fn a_command_that_cannot_be_run_is_127_or_126() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let text = house.path("text");
    std::fs::write(&text, "no program").unwrap();
    let missing = house.path("missing");
    for (command, exit, problem) in [
        (&missing, 127, "not found"),
        (&text, 126, "denied"),
        (&house.path("."), 126, "denied"),
    ] {
        let command = command.to_str().unwrap();
        let done = house.done(&["run", "-s", "a", "--", command]);
        assert_eq!(done.code, exit, "{done:?}");
        let begin = format!("lockhouse: cannot run {command}: ");
        assert!(done.stderr.starts_with(&begin), "{done:?}");
        assert!(done.stderr.contains(problem), "{done:?}");
        assert_eq!(house.in_use("a"), 0);
    }
    let done = house.done(&["run", "-s", "a", "-o", "json", "--", "no such command"]);
    let problem: Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!(
        (done.code, &problem["code"]),
        (127, &"invalid_request".into())
    );
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands() {
    let house = House::on_a_store();
    let mut run = house.run(&[], "echo up; cat; echo problem >&2");
    assert_eq!(run.line(), "up");
    run.write("through\n");
    assert_eq!(run.line(), "through");
    run.close_stdin();
    let done = run.end();
    assert_eq!((&*done.stdout, &*done.stderr), ("", "problem\n"));
}

#[test]
fn arguments_reach_the_command_as_they_are() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let run = [
        "run", "-s", "a", "--", "printf", "[%s]", "-o", "a b", "", "--", "*",
    ];
    assert_eq!(house.text(&run), "[-o][a b][][--][*]");
}

#[test]
fn the_hold_ends_with_the_command_and_not_with_what_it_left_running() {
    let house = House::on_a_store();
    let done = done(&house, "sleep 1000 >/dev/null 2>&1 & echo $!");
    let left = done.stdout.trim();
    assert_eq!((done.code, house.in_use("a")), (0, 0));
    assert!(runs(left));
    assert!(
        std::process::Command::new("kill")
            .arg(left)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_run_in_a_run_is_another_hold() {
    let house = House::on_a_store();
    house.text(&["create", "a", "2"]);
    let lockhouse = lockhouse();
    let inner = format!("echo $LOCKHOUSE_FENCE; {lockhouse} show a -o json");
    let run = [
        "run", "-s", "a", "--", &lockhouse, "run", "-s", "a", "--", "sh", "-c", &inner,
    ];
    let text = house.text(&run);
    let (fence, shown) = text.split_once('\n').unwrap();
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!((fence, &shown["in_use"]), ("2", &2.into()));
}

/// For cron: what is busy is no failure.
#[test]
fn on_busy_skip_exits_0() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "1"]);
        house.text(&["acquire", "-s", "a", "--id", "holder"]);
        let started = house.path("started");
        let command = ["--", "touch", started.to_str().unwrap()];
        let run = |options: &[&str]| house.done(&[&["run", "-s", "a"], options, &command].concat());
        let begun = Instant::now();
        let skipped = run(&["--on-busy", "skip"]);
        assert_eq!((skipped.code, &*skipped.stdout), (0, ""));
        assert!(
            skipped.stderr.starts_with("lockhouse: skipped: "),
            "{skipped:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "it does not wait"
        );
        // One line on stderr: stdout is the command's.
        let skipped = run(&["--on-busy", "skip", "-o", "json"]);
        assert_eq!((skipped.code, &*skipped.stdout), (0, ""));
        assert_eq!(skipped.stderr.lines().count(), 1, "{skipped:?}");
        let why: Value = serde_json::from_str(&skipped.stderr).unwrap();
        assert_eq!(why["skipped"], true, "{why}");
        assert_eq!(
            (&why["code"], &why["status"]),
            (&"exhausted".into(), &423.into())
        );
        assert_eq!(why["semaphores"], serde_json::json!(["a"]));
        let failed = run(&["--on-busy", "fail", "--wait", "0s", "-o", "json"]);
        assert_eq!(failed.code, 75);
        let why: Value = serde_json::from_str(&failed.stderr).unwrap();
        assert_eq!(
            (&why["code"], &why["skipped"]),
            (&"exhausted".into(), &Value::Null)
        );
        assert!(!started.exists());
        house.text(&["release", "holder"]);
        assert_eq!(run(&["--on-busy", "skip"]).code, 0);
        assert!(started.exists());
    }
}

/// If it may wait, it does; and what can never be, or can't be asked, is no matter of being busy.
#[test]
fn on_busy_skip_skips_only_for_lack_of_room() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "holder"]);
    let skips = ["run", "--on-busy", "skip", "--wait", "1h"];
    let run = |name| [&skips[..], &["-s", name, "--", "true"]].concat();
    let waits = house.start(&run("a"));
    until("it waits", || house.json(&["show", "a"])["waiting"] == 1);
    house.text(&["release", "holder"]);
    assert_eq!(waits.end().code, 0);
    assert_eq!(house.done(&run("a=2")).code, 1);
    assert_eq!(house.done(&run("nothing")).code, 1);
}
