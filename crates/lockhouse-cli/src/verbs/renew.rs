//! `lockhouse renew`.

use std::time::Duration;

use clap::Args;
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Set the expiry of a live request to now plus its TTL
///
/// Prints the request, one line for each permit. A request that has ended, or whose time has passed, cannot be
/// renewed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse renew job-abc-123
  lockhouse renew job-abc-123 --ttl 5m")]
pub(crate) struct Renew {
    /// The request
    id: String,
    /// The new TTL: 30s, 5m, 1h30m; by default the one it has
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
}

impl Renew {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let request = lockhouse.renew(&self.id, self.ttl).await?;
        global.output.print(
            || wire::Request::from(&request),
            || table::requests([&request]),
        )?;
        Ok(Exit::OK)
    }
}
