//! `lockhouse release`.

use clap::Args;
use lockhouse::{EndReason, Released, wire};

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table;

/// End a live request and give its permits back
///
/// Prints whether it was this call that ended the request. Again is no error.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse release job-abc-123
  lockhouse release job-abc-123 -o json | jq .released")]
pub(crate) struct Release {
    /// The request
    id: String,
}

impl Release {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.place()?.connect().await?;
        let released = lockhouse.release(&self.id).await?;
        global.output.print(
            || wire::Released {
                released: released.now,
                request: wire::Request::from(&released.request),
            },
            || said(&released),
        )?;
        Ok(Exit::OK)
    }
}

fn said(released: &Released) -> String {
    let id = &released.request.external_id;
    if released.now {
        return format!("request \"{id}\" released");
    }
    let reason = released.request.end_reason();
    format!(
        "request \"{id}\" had ended before: {}",
        table::or_nothing(reason.map(EndReason::as_str))
    )
}
