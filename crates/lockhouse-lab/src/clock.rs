//! Clocks of processes, which can be set while the processes run, as an operator would.
//!
//! A library that is loaded before all others (`clock/preloaded.c`) shows a process its time of day. It adds an offset from a
//! file, which it has mapped. libfaketime keeps Redis from starting, and makes MySQL a hundred times slower: with it, waits by
//! the monotonic clock end at once, and InnoDB's threads have many of those.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failed;

const SOURCE: &str = include_str!("clock/preloaded.c");

/// A clock that any number of processes may be started under.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

/// Compiles the library into `folder`, which all processes under its clocks must be able to read. `more` is C for the same
/// library.
///
/// # Errors
/// Without a C compiler.
pub fn compile(folder: &Path, more: &str) -> Result<PathBuf, Failed> {
    let library = folder.join("clock.so");
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-x", "c", "-o"])
        .arg(&library)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cc: {error}; install a C compiler"))?;
    if let Some(mut source) = compiler.stdin.take() {
        source.write_all(SOURCE.as_bytes())?;
        source.write_all(more.as_bytes())?;
    }
    match compiler.wait()?.success() {
        true => Ok(library),
        false => Err("cc does not compile the library that sets clocks".into()),
    }
}

impl Clock {
    /// Creates a clock that is right. The new file at `path` is for its offset.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(library: &Path, path: PathBuf) -> io::Result<Self> {
        let clock = Self {
            library: library.to_owned(),
            file: File::create(&path)?,
            path,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock `hours` off from now on, also for running processes.
    ///
    /// # Errors
    /// If its file cannot be written.
    pub fn set(&self, hours: i64) -> io::Result<()> {
        let seconds = hours * 3_600;
        self.file.write_all_at(&seconds.to_ne_bytes(), 0)
    }

    /// The environment that puts a process under this clock.
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [
            ("LD_PRELOAD", &self.library),
            ("LOCKHOUSE_CLOCK", &self.path),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// If the library did nothing, all other tests would run under the true clock, and pass.
    #[test]
    fn a_process_sees_its_clock_set_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let library = compile(folder.path(), "").unwrap();
        let clock = Clock::new(&library, folder.path().join("clock")).unwrap();
        let mut shell = Command::new("bash")
            .args(["-c", r#"while read -r; do printf '%(%s)T\n' -1; done"#])
            .envs(clock.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ask = shell.stdin.take().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
        for hours in [0, 5, -20, 0] {
            clock.set(hours).unwrap();
            ask.write_all(b"\n").unwrap();
            let seen: i64 = said.next().unwrap().unwrap().parse().unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let off = seen - now.as_secs().cast_signed();
            assert_eq!((off + 1_800).div_euclid(3_600), hours);
        }
        drop(ask);
        assert!(shell.wait().unwrap().success());
    }
}
