//! `lockhouse line`.

use clap::Args;
use lockhouse::{SemaphoreName, Timestamp, Waiter};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// List the waiters of a semaphore, in order
///
/// Prints one line for each waiter, at whichever server or program it waits: its id and owner, how many permits
/// it asks for, its priority, since when it waits, and which semaphores have too few free permits for it. A
/// waiter that lacks nothing waits for its turn. Waiters at other processes are listed once they have waited for
/// a second, and changes there show up to 5 s late.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse line backup-slots
  lockhouse line backup-slots -o json | jq -r '.waiting[0].external_id'")]
pub(crate) struct Line {
    /// The semaphore
    name: String,
}

impl Line {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let waiting = lockhouse.waiting(&self.name).await?;
        global.output.print(
            || wire::Waiting {
                waiting: waiting.iter().map(wire::Waiter::from).collect(),
            },
            || columns(&waiting),
        )?;
        Ok(Exit::OK)
    }
}

fn columns(waiting: &[Waiter]) -> String {
    let now = Timestamp::now();
    let rows = waiting.iter().map(|waiter| {
        let lacks: Vec<_> = waiter.lacks.iter().map(SemaphoreName::as_str).collect();
        [
            waiter.external_id.to_string(),
            table::owner(waiter.owner.as_ref()),
            waiter.count.to_string(),
            waiter.priority.to_string(),
            table::relative(waiter.since, now),
            table::or_nothing((!lacks.is_empty()).then(|| lacks.join(", "))),
        ]
    });
    table::rows(["ID", "OWNER", "COUNT", "PRIORITY", "SINCE", "LACKS"], rows)
}
