//! `lockhouse show`.

use clap::Args;
use lockhouse::{Origin, SemaphoreStatus, Timestamp};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Show one semaphore
///
/// Prints its capacity, how many permits are held, which template created it, whether its permits have slots, and when it
/// was last changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse show backup-slots
  lockhouse show backup-slots -o json | jq .available")]
pub(crate) struct Show {
    /// The semaphore
    name: String,
}

impl Show {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let status = lockhouse.status(&self.name).await?;
        global
            .output
            .print(|| wire::Semaphore::from(&status), || facts(&status))?;
        Ok(Exit::OK)
    }
}

fn facts(SemaphoreStatus { semaphore, waiting }: &SemaphoreStatus) -> String {
    let now = Timestamp::now();
    let when = |at| format!("{} ({})", table::absolute(at), table::relative(at, now));
    table::facts([
        ("Name", semaphore.name.to_string()),
        ("Capacity", semaphore.capacity.to_string()),
        ("In use", semaphore.in_use.to_string()),
        ("Available", semaphore.available().to_string()),
        ("Waiting", waiting.to_string()),
        ("Fence", semaphore.fence.to_string()),
        ("Template", template(semaphore.origin.as_ref())),
        (
            "Slots",
            if semaphore.is_slotted() { "yes" } else { "no" }.into(),
        ),
        ("Created", when(semaphore.created_at)),
        ("Updated", when(semaphore.updated_at)),
    ])
}

fn template(origin: Option<&Origin>) -> String {
    match origin {
        None => "-".to_owned(),
        Some(origin) if origin.is_resized => format!("{}, resized by hand", origin.template),
        Some(origin) => origin.template.to_string(),
    }
}
