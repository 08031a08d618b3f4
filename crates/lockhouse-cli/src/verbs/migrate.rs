//! `lockhouse migrate`.

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Bring a database's schema up to date
///
/// Prints that it is; with -o json nothing. Every verb does this when it connects, so it is needed
/// only where their database user may not change the schema: run it first as one who may. Any
/// number may at once. Of a server it asks whether it is ready.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse migrate --url mysql://admin@db/lockhouse")]
pub(crate) struct Migrate {}

impl Migrate {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let place = global.place()?;
        let lockhouse = place.connect().await?;
        lockhouse.migrate().await?;
        global
            .output
            .say(|| format!("{} is up to date", place.public()))?;
        Ok(Exit::OK)
    }
}
