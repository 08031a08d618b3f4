//! The verbs, one file each.

mod report;
mod run;
mod suite;

use std::io::{self, Write};

use clap::{Subcommand, ValueEnum};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

fn print(text: &str) -> Result<(), Failed> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
