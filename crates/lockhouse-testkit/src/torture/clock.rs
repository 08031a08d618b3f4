//! Clocks of processes, which can be set while they run, as an operator would.
//!
//! A library that is loaded before all others (`clock/preloaded.c`, compiled when a run begins, with that of
//! [`files`](super::files)) shows a process its time of day. It adds an offset from a file, which it has mapped. Other tests
//! use libfaketime, which makes MySQL a hundred times slower: with it, waits by the monotonic clock end at once, and InnoDB's
//! threads have many of those.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::files::Files;

const SOURCE: &str = concat!(
    include_str!("clock/preloaded.c"),
    include_str!("files/preloaded.c")
);

/// Where clocks come from.
#[derive(Debug)]
pub(crate) struct Clocks {
    folder: PathBuf,
    made: AtomicU32,
}

/// A clock that any number of processes may be started under.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl Clocks {
    /// In a new folder in `folder`, where all who run under them can read.
    ///
    /// # Panics
    /// Without a C compiler.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.join("clocks");
        fs::create_dir_all(&folder).unwrap();
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-x", "c", "-o"])
            .arg(folder.join("clock.so"))
            .arg("-")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut source = compiler.stdin.take().unwrap();
        source.write_all(SOURCE.as_bytes()).unwrap();
        drop(source);
        let compiled = compiler.wait().unwrap();
        assert!(compiled.success(), "cc: {compiled}");
        Self {
            folder,
            made: AtomicU32::new(0),
        }
    }

    fn new_path(&self) -> PathBuf {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        self.folder.join(nth.to_string())
    }

    /// For who runs under one of the clocks: files of `database` with which nothing is wrong.
    pub(super) fn files(&self, database: PathBuf) -> Files {
        Files::new(database, self.new_path())
    }

    /// One that is right.
    pub(crate) fn clock(&self) -> Arc<Clock> {
        let path = self.new_path();
        let clock = Clock {
            library: self.folder.join("clock.so"),
            file: File::create(&path).unwrap(),
            path,
        };
        clock.set(0);
        Arc::new(clock)
    }
}

impl Clock {
    /// From here on it is so many hours off, also for those who run.
    pub(crate) fn set(&self, hours: i64) {
        let seconds = hours * 3_600;
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// The environment that puts a process under this clock.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
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

    /// Without this, all could pass under the true clock.
    #[test]
    fn a_process_sees_its_clock_set_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clocks::new(folder.path()).clock();
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
            clock.set(hours);
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
