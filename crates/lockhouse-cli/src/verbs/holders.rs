//! `lockhouse holders`.

use clap::Args;
use lockhouse::{Owner, Request, SemaphoreName};
use lockhouse_wire as wire;

use super::page::PAGE;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// List who holds permits: all holders, or those of one semaphore or owner
///
/// Prints one line for each permit of a live request, oldest first: its id and owner, how many permits of which
/// semaphore, the fence, the slots of a slotted semaphore, when it was granted and when it expires unless renewed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse holders
  lockhouse holders backup-slots
  lockhouse holders --owner job-abc-123
  lockhouse holders backup-slots -o json | jq -r '.holders[].owner'")]
pub(crate) struct Holders {
    /// Only the holders of this semaphore
    name: Option<String>,
    /// Only the requests of this owner
    #[arg(long)]
    owner: Option<String>,
}

impl Holders {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let on = self.name.map(SemaphoreName::parse).transpose();
        let on = on.map_err(lockhouse::Error::from)?;
        let owner = self.owner.map(Owner::parse).transpose();
        let owner = owner.map_err(lockhouse::Error::from)?;
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let mut all: Vec<Request> = Vec::new();
        let mut after = None;
        loop {
            let page = match &owner {
                Some(owner) => lockhouse.held_by(owner, on.as_ref(), after, PAGE).await?,
                None => lockhouse.holders(on.as_ref(), after, PAGE).await?,
            };
            all.extend(page.requests);
            match page.next {
                None => break,
                next => after = next,
            }
        }
        all.sort_by(|one, other| {
            let granted = |request: &Request| (request.created_at, request.external_id.clone());
            granted(one).cmp(&granted(other))
        });
        global.output.print(
            || wire::Holders {
                holders: all.iter().map(wire::Request::from).collect(),
                next: None,
            },
            || table::requests(&all),
        )?;
        Ok(Exit::OK)
    }
}
