//! `lockhouse epoch`.

use clap::Args;
use lockhouse::{Epoch, Raised};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Raise all fences to a new epoch, after the database has lost commits
///
/// What is granted from then on has greater fences than all that was granted before, also by grants
/// that were lost. Raises the fences of all semaphores, of deleted ones, and of those that are yet to
/// be made. An epoch has 2^32 fences, and there are 2,097,152 of them. What is held stays held.
/// It takes a store's URL, not a server's.
#[derive(Args, Debug)]
#[command(after_help = "\
The epoch is the one after the highest that there is, unless --to names one. If an epoch was begun
before, and its commits may be lost too, name a later one. An epoch below the highest is refused;
the same one again goes on where that ended.

Examples:
  lockhouse epoch --url mysql://app@db/lockhouse
  lockhouse epoch --to 7
  lockhouse epoch -o json | jq .new")]
pub(crate) struct EpochVerb {
    /// Raise them to this one
    #[arg(long, value_name = "EPOCH", value_parser = epoch)]
    to: Option<Epoch>,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Json {
    old: u64,
    new: u64,
    fence: u64,
    semaphores: u64,
}

impl EpochVerb {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.place()?.connect().await?;
        let raised = lockhouse.raise_epoch(self.to).await?;
        global.output.print(
            || Json {
                old: raised.old.value(),
                new: raised.new.value(),
                fence: raised.new.fence(),
                semaphores: raised.semaphores,
            },
            || said(&raised),
        )?;
        Ok(Exit::OK)
    }
}

fn said(raised: &Raised) -> String {
    let Raised {
        old,
        new,
        semaphores,
    } = raised;
    let fence = new.fence();
    format!("epoch {new}, after {old}: {semaphores} fences raised, all are at {fence} or beyond")
}

fn epoch(text: &str) -> Result<Epoch, String> {
    let number: i64 = text.parse().map_err(|_| "is no number".to_owned())?;
    Epoch::new(number).map_err(|invalid| invalid.to_string())
}
