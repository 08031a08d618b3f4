//! The formats in which the verbs print.

use std::io::{self, Write};

use clap::ValueEnum;
use lockhouse_bench::Failed;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

pub(super) fn print(text: &str) -> Result<(), Failed> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
