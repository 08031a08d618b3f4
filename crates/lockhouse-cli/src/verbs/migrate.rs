//! `lockhouse migrate`.

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Bring a database's schema up to date
///
/// Prints a confirmation; with -o json nothing. Every command brings the schema up to date when it connects. So this
/// one is needed only where the commands' database user may not change the schema: run it first, as a user who
/// may. Several may run at once. With a server's URL it checks whether the server is ready.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse migrate --url mysql://admin@db/lockhouse")]
pub(crate) struct Migrate {}

impl Migrate {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let target = global.target()?;
        let lockhouse = target.connect().await?;
        lockhouse.migrate().await?;
        global
            .output
            .say(|| format!("{} is up to date", target.public()))?;
        Ok(Exit::OK)
    }
}
