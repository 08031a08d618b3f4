//! Printing, and exit codes.

use std::io::{self, Write};

use clap::ValueEnum;

/// A promise that Lockhouse broke, or something else that went wrong.
pub(crate) const FAILED: u8 = 1;
/// Arguments that make no sense.
pub(crate) const USAGE: u8 = 64;
/// The database does not answer, or a program that the scenes need is not installed.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Interrupted before there was a result.
pub(crate) const INTERRUPTED: u8 = 130;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Why the lab ends without verdicts: an exit code and what to say.
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

pub(crate) fn write_out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| Failure(FAILED, format!("cannot write to stdout: {error}")))
}

pub(crate) fn complain(text: &str) {
    // Without stderr there is no place left to report to.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn columns(rows: &[[String; 3]]) -> String {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or_default() + 3
    };
    let (first, second) = (width(0), width(1));
    let lines = rows
        .iter()
        .map(|[name, broke, rounds]| format!("{name:first$}{broke:second$}{rounds}"));
    lines.collect::<Vec<_>>().join("\n")
}
