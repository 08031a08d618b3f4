//! `lockhouse goodbye`.

use clap::Args;
use lockhouse::{Error, Owner};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Release everything that an owner holds, and end its session
///
/// Prints how many requests it released. It is no error if the owner holds nothing, so it is safe to repeat.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse goodbye job-abc-123")]
pub(crate) struct Goodbye {
    /// The owner, as in --owner of acquire
    owner: String,
}

impl Goodbye {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let owner = Owner::parse(&self.owner).map_err(Error::from)?;
        let lockhouse = global.target()?.connect().await?;
        let released = lockhouse.goodbye(&owner).await?;
        global.output.print(
            || wire::Goodbye {
                owner: owner.to_string(),
                released,
            },
            || {
                let requests = if released == 1 { "request" } else { "requests" };
                format!("owner \"{owner}\" is gone, {released} {requests} released")
            },
        )?;
        Ok(Exit::OK)
    }
}
