//! The subcommand, and the parts that it shares with the rest of the program.

pub(crate) mod output;
mod redis;
pub(crate) mod signals;

use clap::Subcommand;

use output::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Redis(redis::Redis),
}

impl Verb {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self {
            Verb::Redis(redis) => redis.perform().await,
        }
    }
}
