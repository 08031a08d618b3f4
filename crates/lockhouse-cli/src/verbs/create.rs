//! `lockhouse create`.

use clap::Args;
use lockhouse::{Error, Lockhouse, Refusal, SemaphoreStatus};
use lockhouse_wire as wire;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{Failure, word};
use crate::global::Global;

/// Create a semaphore
///
/// Prints whether it was created, or existed with that capacity already; with -o json, `created` says so. If it
/// exists with another capacity, nothing changes, and that is an error. `resize` changes a capacity.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse create backup-slots 10
  lockhouse create deploy 1
  lockhouse create gpu 4 --slots
  lockhouse create network 4 --if-missing")]
pub(crate) struct Create {
    /// The semaphore
    name: String,
    /// How many permits it has; 0 closes it
    #[arg(allow_negative_numbers = true)]
    capacity: i64,
    /// Number the permits: each gets a slot, from 0 to the capacity - 1, that nobody else holds. The capacity is then at
    /// most 4,096
    #[arg(long)]
    slots: bool,
    /// Succeed if it exists, whatever its capacity and its slots, and change nothing
    #[arg(long)]
    if_missing: bool,
}

#[derive(Serialize)]
struct Created {
    created: bool,
    #[serde(flatten)]
    semaphore: wire::Semaphore,
}

impl Create {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let (status, created) = self.create(&lockhouse).await?;
        let did = if created {
            "created"
        } else {
            "exists already,"
        };
        global.output.print(
            || Created {
                created,
                semaphore: wire::Semaphore::from(&status),
            },
            || {
                let semaphore = &status.semaphore;
                let (name, capacity) = (&semaphore.name, semaphore.capacity);
                format!("semaphore \"{name}\" {did} with capacity {capacity}")
            },
        )?;
        Ok(Exit::OK)
    }

    /// Creates the semaphore. Returns it, and whether this call created it.
    async fn create(&self, lockhouse: &Lockhouse) -> Result<(SemaphoreStatus, bool), Failure> {
        let mut define = lockhouse.define(&self.name, self.capacity).if_missing();
        if self.slots {
            define = define.slots();
        }
        match define.send().await {
            Err(Error::Refused(Refusal::CapacityChanged { .. } | Refusal::SlotsDiffer { .. }))
                if self.if_missing =>
            {
                Ok((lockhouse.status(&self.name).await?, false))
            }
            Err(error @ Error::Refused(Refusal::CapacityChanged { .. })) => {
                let name = word(&self.name);
                Err(Failure::Hinted {
                    error,
                    hint: format!(
                        "lockhouse resize {name} {}; or create with --if-missing, to keep it unchanged",
                        self.capacity
                    ),
                })
            }
            Err(error @ Error::Refused(Refusal::SlotsDiffer { .. })) => {
                let name = word(&self.name);
                Err(Failure::Hinted {
                    error,
                    hint: format!(
                        "lockhouse delete {name}, and create it again; or create with --if-missing, to keep it unchanged"
                    ),
                })
            }
            done => Ok(done?),
        }
    }
}
