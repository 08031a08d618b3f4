//! `lockhouse epoch`.

use clap::Args;
use lockhouse::{Epoch, Raised};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Raise all fences to a new epoch, after the database has lost commits
///
/// Later grants have higher fences than all earlier ones, including grants that were lost. It raises the fences
/// of all semaphores, of deleted ones, and of those that will be created. An epoch has 2^32 fences, and there are
/// 2,097,152 epochs. Live requests stay held. It needs the store's URL, not a server's.
#[derive(Args, Debug)]
#[command(after_help = "\
The epoch is the one after the highest that exists, unless --to names one. If an earlier `epoch` may be
among the lost commits, name a later one than it printed. An epoch below the highest is refused. The
same one again continues where it ended.

Examples:
  lockhouse epoch --url mysql://app@db/lockhouse
  lockhouse epoch --to 7
  lockhouse epoch -o json | jq .new")]
pub(crate) struct EpochVerb {
    /// Raise the fences to this epoch
    #[arg(long, value_name = "EPOCH", value_parser = epoch)]
    to: Option<Epoch>,
}

/// The output of `-o json`.
#[derive(Serialize)]
struct Json {
    old: u64,
    new: u64,
    fence: u64,
    semaphores: u64,
}

impl EpochVerb {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
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
    let number: i64 = text
        .parse()
        .map_err(|_| "is not a number; give an epoch, such as 3".to_owned())?;
    Epoch::new(number).map_err(|invalid| invalid.to_string())
}
