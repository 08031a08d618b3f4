//! The verbs, one file each.

mod output;
mod report;
mod run;
mod suite;

use clap::Subcommand;
use lockhouse_bench::Failed;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::Run),
    Suite(suite::Suite),
    Report(report::Report),
}

impl Verb {
    pub(crate) async fn perform(self) -> Result<(), Failed> {
        match self {
            Verb::Run(verb) => verb.perform().await,
            Verb::Suite(verb) => verb.perform().await,
            Verb::Report(verb) => verb.perform(),
        }
    }
}
