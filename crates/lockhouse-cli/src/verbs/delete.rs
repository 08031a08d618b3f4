//! `lockhouse delete`.

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Delete a semaphore that nobody holds
///
/// Prints a confirmation; with -o json nothing. If the name is created again, its fences continue.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse delete backup-slots")]
pub(crate) struct Delete {
    /// The semaphore
    name: String,
}

impl Delete {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        lockhouse.delete(&self.name).await?;
        global
            .output
            .say(|| format!("semaphore \"{}\" deleted", self.name))?;
        Ok(Exit::OK)
    }
}
