//! `lockhouse resize`.

use clap::Args;
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::who;

/// Change the capacity of a semaphore
///
/// Prints the new capacity. A capacity below what is held revokes nothing: nothing is granted until there is
/// room.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse resize backup-slots 20 --note 'new disks'
  lockhouse resize backup-slots 20 --expect 10
  lockhouse resize backup-slots 0")]
pub(crate) struct Resize {
    /// The semaphore
    name: String,
    /// The new number of permits; 0 closes the semaphore
    #[arg(allow_negative_numbers = true)]
    capacity: i64,
    /// Change it only if this is the capacity now, or the new one already
    #[arg(long, value_name = "CAPACITY", allow_negative_numbers = true)]
    expect: Option<i64>,
    /// The reason, for its history
    #[arg(long)]
    note: Option<String>,
}

impl Resize {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let mut define = lockhouse
            .define(&self.name, self.capacity)
            .must_exist()
            .changed_by(who::user_and_host());
        if let Some(expected) = self.expect {
            define = define.expected(expected);
        }
        if let Some(note) = self.note {
            define = define.note(note);
        }
        let status = define.await?;
        global.output.print(
            || wire::Semaphore::from(&status),
            || {
                let semaphore = &status.semaphore;
                let (name, capacity) = (&semaphore.name, semaphore.capacity);
                format!("semaphore \"{name}\" resized to capacity {capacity}")
            },
        )?;
        Ok(Exit::OK)
    }
}
