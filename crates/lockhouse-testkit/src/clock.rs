//! Clocks that show processes a wrong time, and may jump while the processes run.
//!
//! libfaketime is loaded between a process and the C library, and shows the process such a clock. It changes only the time of
//! day. Timers use the true monotonic clock, as on a machine whose clock is set.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const BETWEEN_JUMPS: Duration = Duration::from_millis(150);

/// A clock that any number of processes may be started under.
pub struct Clock {
    folder: TempDir,
    library: PathBuf,
}

impl Clock {
    /// A clock that is `offset` off: `+5h`, `-40d`, `+0`. `None` if libfaketime is missing.
    ///
    /// # Panics
    /// If libfaketime is missing and `LOCKHOUSE_TEST_FULL` is set.
    pub fn off_by(offset: &str) -> Option<Self> {
        let Some(library) = library() else {
            assert!(
                std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
                "libfaketime is not installed, and a full run leaves nothing out; use scripts/test"
            );
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            // Written past the test harness's capture, so that people see it.
            let _ = writeln!(
                std::io::stderr(),
                "left out: {test} (libfaketime is not installed)"
            );
            return None;
        };
        let clock = Self {
            folder: tempfile::tempdir().unwrap(),
            library,
        };
        clock.jump(offset);
        Some(clock)
    }

    /// Sets the clock `offset` off from now on, also for running processes.
    pub fn jump(&self, offset: &str) {
        // Renamed into place, so that no process reads half of it meanwhile.
        let new = self.folder.path().join("new");
        fs::write(&new, offset).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// The environment that puts a process under this clock.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// Jumps between `offsets`, over and over, until the answer is dropped.
    pub fn keeps_jumping(self: &Arc<Self>, offsets: &'static [&'static str]) -> Jumping {
        let (stop, stopped) = mpsc::channel::<()>();
        let clock = Arc::clone(self);
        thread::spawn(move || {
            for offset in offsets.iter().cycle() {
                clock.jump(offset);
                if stopped.recv_timeout(BETWEEN_JUMPS) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Jumping { _stop: stop }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

/// A clock that jumps.
pub struct Jumping {
    _stop: mpsc::Sender<()>,
}

/// The library for programs with threads, at Debian's path.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut candidates =
        folders.map(|folder| folder.path().join(Path::new("faketime/libfaketimeMT.so.1")));
    candidates.find(|candidate| candidate.exists())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// If the library did nothing, tests of clocks would run under the true clock, and pass.
    #[test]
    fn a_process_sees_the_clock_that_it_was_given() {
        let Some(clock) = Clock::off_by("+5h") else {
            return;
        };
        assert_eq!(off_by(&clock), 5);
        clock.jump("-960h");
        assert_eq!(off_by(&clock), -960);
    }

    fn off_by(clock: &Clock) -> i64 {
        let seen = Command::new("date")
            .arg("+%s")
            .envs(clock.environment())
            .output()
            .unwrap();
        let seen: i64 = String::from_utf8(seen.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (seen - now.as_secs() as i64 + 1800).div_euclid(3600)
    }
}
