//! `lockhouse create`.

use clap::Args;
use lockhouse::wire;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::who;

/// Create a semaphore, or resize one that exists
///
/// Prints which of the two it did. A capacity below what is held revokes nothing; nothing is
/// granted until there is room.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse create backup-slots 10
  lockhouse create deploy 1 --note 'one deploy at a time'")]
pub(crate) struct Create {
    /// The semaphore
    name: String,
    /// How many permits it has; 0 closes it
    #[arg(allow_negative_numbers = true)]
    capacity: i64,
    /// Why, for its history
    #[arg(long)]
    note: Option<String>,
}

impl Create {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.place()?.connect().await?;
        let mut define = lockhouse
            .define(&self.name, self.capacity)
            .changed_by(who::user_and_host());
        if let Some(note) = self.note {
            define = define.note(note);
        }
        let (status, created) = define.send().await?;
        let did = if created {
            "created with"
        } else {
            "resized to"
        };
        global.output.print(
            || wire::Semaphore::from(&status),
            || {
                let semaphore = &status.semaphore;
                let (name, capacity) = (&semaphore.name, semaphore.capacity);
                format!("semaphore \"{name}\" {did} capacity {capacity}")
            },
        )?;
        Ok(Exit::OK)
    }
}
