//! What goes to stdout: one line of JSON for programs, or words and tables for people.
//!
//! A reader that goes away, such as `head`, is no error.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Words and columns, for people.
    Table,
    /// One line of JSON, the same as the HTTP API answers.
    Json,
}

impl Format {
    /// Prints what was answered: `json` to programs, `text` to people.
    pub(crate) fn print<J: Serialize>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self {
            Format::Table => line(&text()),
            Format::Json => {
                let json = serde_json::to_string(&json())
                    .map_err(|error| Failure::other(format!("cannot write JSON: {error}")))?;
                line(&json)
            }
        }
    }

    /// Prints `text` to people. Programs learn all there is from the exit code, as from an HTTP
    /// answer without content.
    pub(crate) fn say(self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self {
            Format::Table => line(&text()),
            Format::Json => Ok(()),
        }
    }
}

/// Prints one line, or several, and sees to it that they leave.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints `bytes` as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::other(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says `text` on stderr.
pub(crate) fn complain(text: &str) {
    // With stderr gone there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
