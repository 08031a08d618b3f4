//! `run` at a terminal, under a shell with job control.

#![allow(clippy::unwrap_used, clippy::print_stderr)]
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::house::{House, eventually, lockhouse, until};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

/// Somebody before a terminal, with a shell in it.
struct Terminal {
    house: House,
    keys: File,
    screen: Arc<Mutex<String>>,
    shell: Child,
}

impl Terminal {
    fn new() -> Self {
        let house = House::on_a_store();
        house.text(&["create", "a", "1"]);
        let (keys, line) = pty();
        let end = || line.try_clone().unwrap();
        // Tests in the background of a script have signals ignored that a terminal sends.
        let shell = Command::new("env")
            .args(["--default-signal", "setsid", "--ctty", "--wait"])
            .args(["bash", "--norc", "--noprofile", "-i"])
            .env("lockhouse", lockhouse())
            .env("LOCKHOUSE_URL", house.url())
            .env("PS1", "$ ")
            .env("TERM", "dumb")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let mut output = keys.try_clone().unwrap();
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..read]).replace('\r', "");
                shown.lock().unwrap().push_str(&text);
            }
        });
        let mut terminal = Self {
            house,
            keys,
            screen,
            shell,
        };
        // Input is not echoed, so that the screen shows only answers.
        terminal.shows("$ ");
        terminal
            .types("bind 'set enable-bracketed-paste off'; stty -echo; set +o emacs; echo set\n");
        terminal.shows("\nset\n");
        terminal
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is shown, and forgets all until then.
    fn shows(&self, text: &str) {
        eventually(&format!("{text:?} is shown"), || {
            let mut screen = self.screen();
            let end = screen.find(text)? + text.len();
            screen.drain(..end);
            Some(())
        });
    }

    /// Also when a thread panicked that held it: a second panic would end all tests.
    fn screen(&self) -> MutexGuard<'_, String> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two ends of a new terminal. No child inherits them by the way, so that who is left when a
/// test fails is hung up on.
fn pty() -> (File, File) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(ptsname_r(&master).unwrap())
        .unwrap();
    (OwnedFd::from(master).into(), slave)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- shown:\n{}\n---", self.screen());
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

const RUN: &str = "$lockhouse run -s a --";

#[test]
fn a_command_may_read_the_terminal() {
    let mut terminal = Terminal::new();
    terminal.types(&format!(
        "{RUN} sh -c 'echo up; read x; echo got $x'; echo exit $?\n"
    ));
    terminal.shows("up\n");
    terminal.types("this\n");
    terminal.shows("got this\n");
    terminal.shows("exit 0\n");
    terminal.types("echo and the shell after it\n");
    terminal.shows("and the shell after it\n");
}

#[test]
fn a_long_owner_is_shortened_in_the_middle_on_a_terminal_only() {
    let mut terminal = Terminal::new();
    let owner = format!("begin-{}-end", "x".repeat(60));
    let ask = ["acquire", "-s", "a", "--id", "i", "--owner", owner.as_str()];
    terminal.house.text(&ask);
    terminal.types("$lockhouse holders\n");
    terminal.shows(&format!(
        "i    begin-{}…{}-end   a",
        "x".repeat(14),
        "x".repeat(15)
    ));
    let listed = terminal.house.text(&["holders"]);
    assert!(listed.contains(&owner), "{listed}");
    let held = terminal.house.json(&["holders"]);
    assert_eq!(held["holders"][0]["owner"], owner);
}

/// `run` waits for as long as it takes, so a person must see why nothing happens.
#[test]
fn a_terminal_shows_what_run_waits_for() {
    let mut terminal = Terminal::new();
    terminal.house.text(&["acquire", "-s", "a", "--id", "held"]);
    terminal.types(&format!("{RUN} echo up; echo exit $?\n"));
    terminal.shows("lockhouse: waiting for \"a\": 1 of 1 permits in use\n");
    terminal.house.text(&["release", "held"]);
    terminal.shows("up\nexit 0\n");
    terminal.house.text(&["resize", "a", "0"]);
    terminal.types(&format!("{RUN} echo up; echo exit $?\n"));
    terminal.shows("waiting for \"a\", which is closed; lockhouse resize a CAPACITY opens it\n");
    terminal.house.text(&["resize", "a", "1"]);
    terminal.shows("up\nexit 0\n");
    // No terminal, no word.
    terminal.types(&format!("{RUN} echo up 2>/dev/null; echo exit $?\n"));
    terminal.shows("up\nexit 0\n");
}

#[test]
fn a_terminal_shows_how_many_others_wait_at_the_server() {
    let mut terminal = Terminal::new();
    let (_server, url) = terminal.house.serve("127.0.0.1:0");
    let acquire = ["--url", &url, "acquire", "-s", "a", "--wait", "forever"];
    terminal.house.text(&acquire);
    let mut others = Vec::new();
    for waiting in 1..=2 {
        others.push(terminal.house.start(&acquire));
        until("it waits", || {
            terminal.house.json(&["--url", &url, "show", "a"])["waiting"] == waiting
        });
    }
    terminal.types(&format!("LOCKHOUSE_URL={url} {RUN} true\n"));
    terminal.shows("1 of 1 permits in use, 2 others wait\n");
    terminal.types("\x03");
}

/// Each `run` is a separate process on the store.
#[test]
fn a_terminal_shows_how_many_are_ahead_at_other_processes() {
    let mut terminal = Terminal::new();
    terminal.house.text(&["acquire", "-s", "a", "--id", "held"]);
    let mut others = Vec::new();
    for id in ["one", "two"] {
        let acquire = ["acquire", "-s", "a", "--id", id, "--wait", "forever"];
        others.push(terminal.house.start(&acquire));
        until("it is listed", || {
            let listed = terminal.house.json(&["line", "a"]);
            let waiting = listed["waiting"].as_array().unwrap().clone();
            waiting.iter().any(|waiter| waiter["external_id"] == id)
        });
    }
    let text = terminal.house.text(&["line", "a"]);
    let columns: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        columns,
        ["ID", "OWNER", "COUNT", "PRIORITY", "SINCE", "LACKS"]
    );
    let rows: Vec<_> = text.lines().skip(1).collect();
    assert!(
        rows[0].starts_with("one ") && rows[1].starts_with("two "),
        "{text}"
    );
    assert!(rows[0].ends_with(" a"), "{text}");
    terminal.types(&format!("{RUN} echo up\n"));
    terminal.shows("lockhouse: waiting for \"a\": 1 of 1 permits in use, 2 ahead\n");
    terminal.house.text(&["release", "held"]);
    terminal.shows("1 of 1 permits in use, 1 ahead\n");
    terminal.house.text(&["release", "one"]);
    terminal.shows("1 of 1 permits in use, next in line\n");
    terminal.house.text(&["release", "two"]);
    terminal.shows("up\n");
}

#[test]
fn ctrl_c_reaches_the_command() {
    let mut terminal = Terminal::new();
    // A shell that starts one program after the other may miss a signal between two.
    let script = "trap 'kill \\$!; echo ending; exit 3' INT; sleep 1000 & echo up; wait";
    terminal.types(&format!("{RUN} sh -c \"{script}\"; echo exit $?\n"));
    terminal.shows("up\n");
    terminal.types("\x03");
    terminal.shows("ending\n");
    terminal.shows("exit 3\n");
}

#[test]
fn ctrl_z_stops_the_job_and_fg_goes_on_with_it() {
    let mut terminal = Terminal::new();
    terminal.types(&format!("{RUN} sh -c 'echo up; read x; echo got $x'\n"));
    terminal.shows("up\n");
    for _ in 0..2 {
        terminal.types("\x1a");
        terminal.shows("Stopped");
        terminal.types("echo; echo the shell is back\n");
        terminal.shows("\nthe shell is back\n");
        assert_eq!(terminal.house.in_use("a"), 1);
        terminal.types("fg\n");
        terminal.shows("$lockhouse run");
    }
    terminal.types("this\n");
    terminal.shows("got this\n");
    until("it is given back", || terminal.house.in_use("a") == 0);
}

#[test]
fn ctrl_z_stops_a_command_that_does_not_have_the_terminal() {
    let mut terminal = Terminal::new();
    let ticks = "while :; do echo tick >>ticks; sleep 0.02; done";
    let folder = terminal.house.path("");
    terminal.types(&format!(
        "cd {}; {RUN} sh -c 'echo up; {ticks}' </dev/null | cat\n",
        folder.display()
    ));
    terminal.shows("up\n");
    let ticks = || std::fs::metadata(folder.join("ticks")).map_or(0, |file| file.len());
    for _ in 0..2 {
        terminal.types("\x1a");
        terminal.shows("Stopped");
        let stopped_at = ticks();
        thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(ticks(), stopped_at);
        terminal.types("fg\n");
        until("it goes on", || ticks() > stopped_at);
    }
    terminal.types("\x03");
    until("it is given back", || terminal.house.in_use("a") == 0);
}

#[test]
fn a_job_in_the_background_that_wants_the_terminal_waits_for_it() {
    let mut terminal = Terminal::new();
    terminal.types(&format!("{RUN} sh -c 'read x; echo got $x' &\n"));
    // As of any job that reads in the background.
    terminal.types("until jobs | grep Stopped; do :; done; fg\n");
    terminal.shows("Stopped");
    terminal.shows("$lockhouse run");
    terminal.types("this\n");
    terminal.shows("got this\n");
}

#[test]
fn the_rest_of_a_pipeline_keeps_the_terminal() {
    let mut terminal = Terminal::new();
    let pager = "sh -c 'read line; echo $line; read key </dev/tty; echo got $key'";
    terminal.types(&format!(
        "{RUN} sh -c 'echo text; exec sleep 1000' | {pager}\n"
    ));
    terminal.shows("text\n");
    terminal.types("q\n");
    terminal.shows("got q\n");
    terminal.types("\x03");
    until("the command ends too", || terminal.house.in_use("a") == 0);
}

#[test]
fn a_command_in_a_pipeline_has_the_terminal_if_it_reaches_for_it() {
    let mut terminal = Terminal::new();
    terminal.types(&format!(
        "{RUN} sh -c 'echo up; read x; echo got $x' | cat\n"
    ));
    terminal.shows("up\n");
    terminal.types("this\n");
    terminal.shows("got this\n");
}

#[test]
fn a_script_goes_on_with_the_terminal_after_it() {
    let mut terminal = Terminal::new();
    let script = terminal.house.path("script");
    let lines = format!("{RUN} sh -c 'echo up; read x; echo got $x'\nread y\necho and $y\n");
    std::fs::write(&script, lines).unwrap();
    terminal.types(&format!("sh {}\n", script.display()));
    terminal.shows("up\n");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.types("fg\n");
    terminal.shows("sh /");
    terminal.types("this\n");
    terminal.shows("got this\n");
    terminal.types("that\n");
    terminal.shows("and that\n");
}

#[test]
fn a_second_ctrl_c_kills_a_command_that_ignores_the_first() {
    let mut terminal = Terminal::new();
    terminal.types(&format!(
        "{RUN} sh -c \"trap 'sleep 0.2; echo not yet' INT; echo up; while :; do sleep 0.02; done\"; echo exit $?\n"
    ));
    terminal.shows("up\n");
    terminal.types("\x03");
    terminal.shows("not yet\n");
    terminal.types("\x03");
    terminal.shows("exit 137\n");
    until("it is given back", || terminal.house.in_use("a") == 0);
}

/// As of an editor, or of a shell at its prompt.
#[test]
fn a_program_in_raw_mode_gets_every_ctrl_c() {
    let mut terminal = Terminal::new();
    let script = "trap 'echo a key' INT; stty -icanon; echo up; while :; do sleep 0.02; done";
    terminal.types(&format!(
        "{RUN} sh -c \"{script}\"; stty icanon; echo exit $?\n"
    ));
    terminal.shows("up\n");
    for _ in 0..4 {
        terminal.types("\x03");
        terminal.shows("a key\n");
    }
    assert_eq!(terminal.house.in_use("a"), 1);
    // Ctrl-\ .
    terminal.types("\x1c");
    terminal.shows("exit ");
}
