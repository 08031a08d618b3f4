//! Makes the files of an SQLite store fail for a process. SQLite's COMMIT is a write and a sync by the process itself.
//!
//! A library that is loaded before all others (`files/preloaded.c`) does that, together with that of [`clock`](super::clock).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::plan::Point;

/// The files of a database, as one process sees them.
#[derive(Debug)]
pub(super) struct Files {
    database: PathBuf,
    path: PathBuf,
    file: File,
}

/// The trouble with the files. The numbers are those of the preloaded library.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Nothing = 0,
    /// The process dies in the middle of a write.
    DieWriting = 1,
    /// The process dies after a write, before the sync.
    DieWritten = 2,
    /// The process dies when others can see its commit.
    DieCommitted = 3,
    /// Nothing can be written, nor opened to be written.
    ReadOnly = 4,
}

impl Files {
    /// The files whose names begin with `database`. A new file at `path` tells the trouble with them.
    pub(super) fn new(database: PathBuf, path: PathBuf) -> Self {
        let file = File::create(&path).unwrap();
        let files = Self {
            database,
            path,
            file,
        };
        files.set(Trouble::Nothing);
        files
    }

    /// Sets the trouble from now on, also for running processes.
    pub(super) fn set(&self, trouble: Trouble) {
        let order = trouble as i64;
        self.file.write_all_at(&order.to_ne_bytes(), 0).unwrap();
    }

    /// The environment that gives a process these files.
    pub(super) fn environment(&self) -> [(&'static str, &Path); 2] {
        [
            ("LOCKHOUSE_DATABASE", &self.database),
            ("LOCKHOUSE_FILES", &self.path),
        ]
    }
}

impl From<Point> for Trouble {
    fn from(point: Point) -> Self {
        match point {
            Point::Before => Self::DieWriting,
            Point::Forwarded => Self::DieWritten,
            Point::Replied => Self::DieCommitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::torture::clock::Clocks;

    /// If the library did nothing, all processes could write, and other tests would pass.
    #[test]
    fn a_process_finds_its_files_read_only_and_others_not() {
        let folder = tempfile::tempdir().unwrap();
        let clocks = Clocks::new(folder.path());
        let files = clocks.files(folder.path().join("db"));
        for (trouble, name, can_write) in [
            (Trouble::Nothing, "db-wal", true),
            (Trouble::ReadOnly, "db-wal", false),
            (Trouble::ReadOnly, "log", true),
            (Trouble::Nothing, "db", true),
        ] {
            files.set(trouble);
            let shell = Command::new("bash")
                .args(["-c", "echo > $0"])
                .arg(folder.path().join(name))
                .envs(clocks.clock().environment())
                .envs(files.environment())
                .stderr(Stdio::null())
                .status();
            assert_eq!(shell.unwrap().success(), can_write, "{name} {trouble:?}");
        }
    }
}
