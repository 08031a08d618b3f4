//! `lockhouse request`.

use clap::Args;
use lockhouse::{EndReason, Request, Timestamp};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Show one request, live or ended
///
/// Prints its permits, since when they are held, and how it ended. An ended request is kept for 7 days, unless
/// the upkeep is set otherwise.
#[derive(Args, Debug)]
#[command(name = "request")]
#[command(after_help = "\
Examples:
  lockhouse request job-abc-123
  lockhouse request job-abc-123 -o json | jq -r .ended_by")]
pub(crate) struct RequestVerb {
    /// The request
    id: String,
}

impl RequestVerb {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let request = lockhouse.find(&self.id).await?;
        global
            .output
            .print(|| wire::Request::from(&request), || facts(&request))?;
        Ok(Exit::OK)
    }
}

fn facts(request: &Request) -> String {
    let now = Timestamp::now();
    let when = |at| format!("{} ({})", table::absolute(at), table::relative(at, now));
    let permits = request.permits.iter().map(|permit| {
        let (name, count, fence) = (&permit.semaphore, permit.count, permit.fence);
        let slots = permit.slots.as_ref().map(table::slots);
        let slots = slots.map(|slots| format!(", slots {slots}"));
        format!(
            "{count} of {name} (fence {fence}{})",
            slots.unwrap_or_default()
        )
    });
    table::facts([
        ("ID", request.external_id.to_string()),
        ("State", request.state.as_str().to_owned()),
        ("Owner", table::or_nothing(request.owner.as_ref())),
        ("Permits", permits.collect::<Vec<_>>().join(", ")),
        ("Granted", when(request.created_at)),
        ("Expires", table::or_nothing(request.expires_at.map(when))),
        ("Ended", table::or_nothing(request.released_at().map(when))),
        (
            "Reason",
            table::or_nothing(request.end_reason().map(EndReason::as_str)),
        ),
        ("Ended by", table::or_nothing(request.ended_by.as_ref())),
    ])
}
