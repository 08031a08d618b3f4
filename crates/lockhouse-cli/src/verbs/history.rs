//! `lockhouse history`.

use clap::Args;
use lockhouse::{CapacityChange, Note};
use lockhouse_wire as wire;

use super::page::PAGE;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Show how a semaphore's capacity changed
///
/// Prints the latest 1000 changes, newest first: when, from what to what, by whom and why.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse history backup-slots
  lockhouse history backup-slots -o json | jq '.changes[0].note'")]
pub(crate) struct History {
    /// The semaphore
    name: String,
}

impl History {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let changes = lockhouse.history(&self.name, PAGE).await?;
        global.output.print(
            || wire::History {
                changes: changes.iter().map(wire::CapacityChange::from).collect(),
            },
            || columns(&changes),
        )?;
        Ok(Exit::OK)
    }
}

fn columns(changes: &[CapacityChange]) -> String {
    let rows = changes.iter().map(|change| {
        [
            table::absolute(change.changed_at),
            change.old_capacity.to_string(),
            change.new_capacity.to_string(),
            table::or_nothing(change.changed_by.as_ref()),
            table::or_nothing(change.note.as_ref().map(Note::as_str)),
        ]
    });
    table::rows(["WHEN", "FROM", "TO", "BY", "NOTE"], rows)
}
