//! `lockhouse release`.

use clap::Args;
use lockhouse::{EndReason, Owner, Released};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;
use crate::who;

/// End a live request and return its permits
///
/// Prints whether this call ended the request. It is no error if the request had ended before. --force ends
/// anybody's request: its holder learns of it at its next renewal, and may continue until then.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse release job-abc-123
  lockhouse release job-abc-123 --force --by ann@ops
  lockhouse release job-abc-123 -o json | jq .released")]
pub(crate) struct Release {
    /// The request
    id: String,
    /// End the request as `forced`, also that of another owner
    #[arg(long)]
    force: bool,
    /// The person or program that ends it, kept as its `ended_by`. By default the user and the host
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

impl Release {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect().await?;
        let by = self.by.unwrap_or_else(who::user_and_host);
        let released = match self.force {
            true => lockhouse.force_release(&self.id, Some(&by)).await?,
            false => lockhouse.release_by(&self.id, &by).await?,
        };
        global.output.print(
            || wire::Released {
                released: released.now,
                decided_at: released.decided_at,
                request: wire::Request::from(&released.request),
            },
            || said(&released),
        )?;
        Ok(Exit::OK)
    }
}

fn said(Released { request, now, .. }: &Released) -> String {
    let id = &request.external_id;
    let reason = request.end_reason();
    let by = request.ended_by.as_ref().map(by).unwrap_or_default();
    match (now, reason) {
        (true, Some(EndReason::Forced)) => format!("request \"{id}\" ended by force{by}"),
        (true, _) => format!("request \"{id}\" released"),
        (false, _) => {
            let reason = table::or_nothing(reason.map(EndReason::as_str));
            format!("request \"{id}\" had ended before: {reason}{by}")
        }
    }
}

fn by(who: &Owner) -> String {
    format!(", by {who}")
}
