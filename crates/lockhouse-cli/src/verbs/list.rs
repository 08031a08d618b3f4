//! `lockhouse list`.

use clap::Args;
use lockhouse::SemaphoreStatus;
use lockhouse_wire as wire;

use super::page::PAGE;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// List semaphores: all, or those whose names begin with a prefix
///
/// Prints one line for each semaphore, in byte order of the names: its capacity, how many permits are held, how
/// many could be granted now, how many callers wait, and its last fence, of a grant or of a change
/// of the capacity.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse list
  lockhouse list customer/
  lockhouse list -o json | jq -r '.semaphores[] | select(.available == 0) | .name'")]
pub(crate) struct List {
    /// Only semaphores whose names begin with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

impl List {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let mut all: Vec<SemaphoreStatus> = Vec::new();
        loop {
            let after = all.last().map(|status| &status.semaphore.name);
            let page = lockhouse.semaphores_with_prefix(&self.prefix, after, PAGE);
            let page = page.await?;
            let more = page.len() == PAGE as usize;
            all.extend(page);
            if !more {
                break;
            }
        }
        global.output.print(
            || wire::Semaphores {
                semaphores: all.iter().map(wire::Semaphore::from).collect(),
                next: None,
            },
            || columns(&all),
        )?;
        Ok(Exit::OK)
    }
}

fn columns(all: &[SemaphoreStatus]) -> String {
    let rows = all.iter().map(|SemaphoreStatus { semaphore, waiting }| {
        [
            semaphore.name.to_string(),
            semaphore.capacity.to_string(),
            semaphore.in_use.to_string(),
            semaphore.available().to_string(),
            waiting.to_string(),
            semaphore.fence.to_string(),
        ]
    });
    let head = [
        "NAME",
        "CAPACITY",
        "IN USE",
        "AVAILABLE",
        "WAITING",
        "FENCE",
    ];
    table::rows(head, rows)
}
