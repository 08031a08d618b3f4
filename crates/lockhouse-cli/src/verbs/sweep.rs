//! `lockhouse sweep`.

use clap::Args;
use lockhouse::{Swept, Upkeep};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;
use crate::upkeep::Ages;

/// Do each task of the upkeep once
///
/// Ends requests whose TTL has passed, requests of owners whose session has ended, and requests without a TTL
/// that are too old. Deletes semaphores of templates that nobody has used, old ended requests and old capacity
/// changes. Prints a count of each. With RUST_LOG=debug it also logs each request that it ends, with the reason,
/// on stderr. It needs the URL of a store: a server does its upkeep by itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse sweep
  lockhouse sweep --stale-after 1h --url mysql://app@db/lockhouse
  lockhouse sweep -o json | jq .lapsed")]
pub(crate) struct Sweep {
    #[command(flatten)]
    ages: Ages,
}

/// The output of `-o json`.
#[derive(Serialize)]
struct Json {
    lapsed: u64,
    stale: u64,
    idle: u64,
    purged: u64,
    history_purged: u64,
}

impl Sweep {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let swept = lockhouse.sweep(&self.ages.of(Upkeep::default())).await?;
        global.output.print(
            || Json {
                lapsed: swept.lapsed,
                stale: swept.stale,
                idle: swept.idle,
                purged: swept.purged,
                history_purged: swept.history_purged,
            },
            || said(&swept),
        )?;
        Ok(Exit::OK)
    }
}

fn said(swept: &Swept) -> String {
    let row = |count: u64, what: &str, why: &str| [count.to_string(), what.into(), why.into()];
    table::rows(
        ["COUNT", "DONE", "WHY"],
        [
            row(
                swept.lapsed,
                "requests ended",
                "their time, or their owner's session, had passed",
            ),
            row(
                swept.stale,
                "requests ended",
                "stale: held too long without a TTL",
            ),
            row(
                swept.idle,
                "semaphores deleted",
                "a template made them, and nobody used them",
            ),
            row(swept.purged, "requests deleted", "ended long ago"),
            row(swept.history_purged, "capacity changes deleted", "old"),
        ],
    )
}
