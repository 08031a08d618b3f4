//! Starts, kills, stops and continues processes. Each is the `torture` program again, with one part.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A process. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    last_line: Arc<Mutex<String>>,
}

impl Process {
    /// Starts `program` with `arguments`, in this environment. Its stderr goes to `log`.
    pub(super) fn start<'a>(
        program: &Path,
        arguments: &[&str],
        environment: impl IntoIterator<Item = (&'static str, &'a Path)>,
        log: &Path,
    ) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(log);
        let mut command = Command::new(program);
        command
            .arg("process")
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.unwrap());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let last_line = Arc::new(Mutex::new(String::new()));
        let said = Arc::clone(&last_line);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                *said.lock().unwrap_or_else(PoisonError::into_inner) = line;
            }
        });
        Self {
            child,
            stdin,
            last_line,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last line that it printed.
    pub(super) fn says(&self) -> String {
        self.last_line
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The first line that it prints.
    pub(super) async fn first_line(&mut self) -> String {
        let begun = Instant::now();
        loop {
            let line = self.says();
            if !line.is_empty() {
                return line;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "a process says nothing"
            );
            if let Some(status) = self.ended() {
                panic!("a process ended that should go on: {status}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Writes a line to its stdin, if it lives.
    pub(super) fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Sends SIGKILL. The process has ended when this returns.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn stop(&self) {
        signal(self.id(), "STOP");
    }

    pub(super) fn go_on(&self) {
        signal(self.id(), "CONT");
    }

    /// Closes its stdin, so that it ends.
    pub(super) fn let_end(&mut self) {
        drop(self.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process of the run.
pub(super) fn signal(id: u32, signal: &str) {
    let kill = Command::new("kill")
        .args(["-s", signal, &id.to_string()])
        .status();
    assert!(kill.unwrap().success(), "no process {id} takes SIG{signal}");
}
