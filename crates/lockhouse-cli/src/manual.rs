//! `lockhouse man`.

use std::path::PathBuf;

use clap::{Args, Command};

use crate::exit::Exit;
use crate::failure::Failure;

/// Write the manual pages into a folder: lockhouse.1, and one for each command
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse man ~/.local/share/man/man1
  man lockhouse-run")]
pub(crate) struct Manual {
    /// The folder, which is made if it is missing
    folder: PathBuf,
}

impl Manual {
    /// Writes the pages of `command`.
    pub(crate) fn perform(self, command: Command) -> Result<Exit, Failure> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder))
            .map_err(|error| {
                Failure::other(format!("cannot write to {}: {error}", folder.display()))
            })?;
        Ok(Exit::OK)
    }
}
