//! A place with semaphores for one test, and the command to use them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use crate::binary::lockhouse;
use lockhouse::Timestamp;
use lockhouse_testkit::clock::Clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct House {
    folder: TempDir,
    url: String,
    server: Option<Running>,
    clock: Option<Arc<Clock>>,
}

impl House {
    /// On its own SQLite file.
    pub(crate) fn on_a_store() -> Self {
        let mut house = Self {
            folder: tempfile::tempdir().unwrap(),
            url: String::new(),
            server: None,
            clock: None,
        };
        house.url = house.store();
        house
    }

    /// On what is at `url`.
    pub(crate) fn at(url: &str) -> Self {
        let mut house = Self::on_a_store();
        house.url = url.to_owned();
        house
    }

    /// The same, where every command that is started sees `clock`.
    pub(crate) fn under(mut self, clock: &Arc<Clock>) -> Self {
        self.clock = Some(Arc::clone(clock));
        self
    }

    /// On its own server, in front of an SQLite file.
    pub(crate) fn behind_a_server() -> Self {
        let mut house = Self::on_a_store();
        let (server, url) = house.serve("127.0.0.1:0");
        house.url = url;
        house.server = Some(server);
        house
    }

    /// A server on this house's store, and its URL.
    pub(crate) fn serve(&self, listen: &str) -> (Running, String) {
        let mut server = self.start(&["serve", "--listen", listen]);
        let line = server.line();
        let (_, url) = line.rsplit_once(" on ").expect(&line);
        (server, url.to_owned())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URL of the store, be there a server before it or not.
    pub(crate) fn store(&self) -> String {
        format!("sqlite:{}", self.path("permits.db").display())
    }

    /// The output of `lockhouse` on the store, bypassing the server.
    pub(crate) fn json_of_store(&self, args: &[&str]) -> Value {
        self.json(&[&["--url", &self.store()], args].concat())
    }

    /// A path in a folder of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `lockhouse` with `args`, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        // Tests in the background of a script have signals ignored, and hand that on.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", &lockhouse()])
            .args(args)
            .env("LOCKHOUSE_URL", &self.url)
            .env_remove("RUST_LOG");
        if let Some(clock) = &self.clock {
            command.envs(clock.environment());
        }
        command
    }

    /// Runs `lockhouse` to its end.
    pub(crate) fn done(&self, args: &[&str]) -> Done {
        let mut running = self.start(args);
        running.close_stdin();
        running.end()
    }

    /// The output of a successful `lockhouse`.
    pub(crate) fn text(&self, args: &[&str]) -> String {
        let done = self.done(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    }

    /// The same with `-o json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        // Before whatever comes after a --.
        let args = [&["-o", "json"], args].concat();
        serde_json::from_str(&self.text(&args)).unwrap()
    }

    /// Starts `lockhouse`, with its stdin and stdout in our hands.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::new(self.command(args))
    }

    /// Starts a shell script under the only permit of a new semaphore, `a`.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Running {
        self.text(&["create", "a", "1"]);
        let run = ["run", "-s", "a"];
        self.start(&[&run, options, &["--", "sh", "-c", script]].concat())
    }

    /// When what is held of `semaphore` expires, by the store.
    pub(crate) fn expires_at(&self, semaphore: &str) -> Timestamp {
        let holders = self.json_of_store(&["holders", semaphore]);
        let expires_at = holders["holders"][0]["expires_at"].as_str();
        expires_at.expect("it is held").parse().unwrap()
    }

    /// How many permits of `semaphore` are held.
    pub(crate) fn in_use(&self, semaphore: &str) -> u64 {
        self.json(&["show", semaphore])["in_use"].as_u64().unwrap()
    }

    pub(crate) fn signal_server(&self, signal: Signal) {
        self.server.as_ref().unwrap().signal(signal);
    }

    /// Ends the server at once, with no time to say goodbye.
    pub(crate) fn kill_server(&mut self) {
        self.server.take().unwrap().signal(Signal::SIGKILL);
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: code(output.status),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// As a shell has it.
fn code(status: ExitStatus) -> i32 {
    let signal = || 128 + status.signal().unwrap();
    status.code().unwrap_or_else(signal)
}

/// A command that runs. Killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// The next line that it prints; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let line = self.stdout.next().unwrap_or_default();
        line.trim_end().to_owned()
    }

    /// The next line of its log; empty at the end.
    pub(crate) fn log_line(&mut self) -> String {
        self.stderr.next().unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Writes `text` to its stdin.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// Closes its stdin.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end, however it comes, and that nobody is left who could print.
    pub(crate) fn end(mut self) -> Done {
        let status = eventually("the command ends", || self.ended());
        Done {
            code: code(status),
            stdout: self.stdout.rest(),
            stderr: self.stderr.rest(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, read by a thread, so that no test waits for ever.
struct Lines(Receiver<String>);

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            while let Ok(1..) = pipe.read_line(&mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// The next line with its end; none if nobody can write any more.
    fn next(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("not in time: a line, or the end of them"),
        }
    }

    fn rest(&self) -> String {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Waits until `look` finds something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `look` is true.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    eventually(what, || look().then_some(()));
}

/// Whether the process `pid` runs; one that has ended and was not waited for does not.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| !"ZX".contains(state))
}
