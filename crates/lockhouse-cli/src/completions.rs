//! `lockhouse completions`.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Print a script that completes lockhouse's arguments in a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse completions bash > ~/.local/share/bash-completion/completions/lockhouse
  lockhouse completions zsh > ~/.zfunc/_lockhouse
  lockhouse completions fish > ~/.config/fish/completions/lockhouse.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script for the arguments of `command`.
    pub(crate) fn perform(self, mut command: Command) -> Result<Exit, Failure> {
        // Into memory first: clap panics if its output is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "lockhouse", &mut script);
        output::bytes(&script)?;
        Ok(Exit::OK)
    }
}
