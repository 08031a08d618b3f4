//! The clocks of a run, and the files that are beside them.
//!
//! A library that is loaded before all others is compiled when a run begins: that of [`lockhouse_lab::clock`], together with
//! that of [`files`](super::files). Other tests use libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse_lab::clock::{Clock, compile};

use super::files::Files;

/// Creates clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    folder: PathBuf,
    library: PathBuf,
    made: AtomicU32,
}

impl Clocks {
    /// Clocks in a new folder in `folder`, which all processes under them must be able to read.
    ///
    /// # Panics
    /// Without a C compiler.
    pub(super) fn new(folder: &Path) -> Self {
        let folder = folder.join("clocks");
        fs::create_dir_all(&folder).unwrap();
        Self {
            library: compile(&folder, include_str!("files/preloaded.c")).unwrap(),
            folder,
            made: AtomicU32::new(0),
        }
    }

    fn new_path(&self) -> PathBuf {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        self.folder.join(nth.to_string())
    }

    /// Files of `database` without trouble, for a process under one of the clocks.
    pub(super) fn files(&self, database: PathBuf) -> Files {
        Files::new(database, self.new_path())
    }

    /// A clock that is right.
    pub(super) fn clock(&self) -> Arc<Clock> {
        Arc::new(Clock::new(&self.library, self.new_path()).unwrap())
    }
}
