//! `lockhouse heartbeat`.

use std::time::Duration;

use clap::Args;
use lockhouse::{OwnerSession, Timestamp};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Send a heartbeat for an owner, which begins or continues its session
///
/// Prints when the next one is due. One heartbeat keeps everything that the owner holds. If none comes in time,
/// all of it is ended. Requests with a TTL must be renewed nevertheless.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse heartbeat job-abc-123
  lockhouse heartbeat job-abc-123 --ttl 5m")]
pub(crate) struct Heartbeat {
    /// The owner, as in --owner of acquire
    owner: String,
    /// How long until the session ends without another heartbeat: 30s, 5m, 1h30m
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration
    )]
    ttl: Duration,
}

impl Heartbeat {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let heard = lockhouse.heartbeat(&self.owner, self.ttl).await?;
        global
            .output
            .print(|| wire::OwnerSession::from(&heard), || said(&heard.session))?;
        Ok(Exit::OK)
    }
}

fn said(
    OwnerSession {
        owner, expires_at, ..
    }: &OwnerSession,
) -> String {
    let at = table::absolute(*expires_at);
    let apart = table::relative(*expires_at, Timestamp::now());
    format!("owner \"{owner}\" is expected again by {at} ({apart})")
}
