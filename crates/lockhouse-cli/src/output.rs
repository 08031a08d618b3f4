//! The output on stdout: one line of JSON for programs, or words and tables for people.
//!
//! A reader that goes away, such as `head`, is no error, unless the output cannot be read in any
//! other way.

use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::Failure;
use crate::format::Format;

impl Format {
    /// Prints a result: `json` to programs, `text` to people.
    pub(crate) fn print<J: Serialize>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        line(&self.said(json, text)?)
    }

    /// Prints a result as [`print`](Self::print) does, but fails if the reader went away.
    pub(crate) fn deliver<J: Serialize>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let said = self.said(json, text)? + "\n";
        write(said.as_bytes()).map_err(|error| cannot_write(&error))
    }

    fn said<J: Serialize>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> String,
    ) -> Result<String, Failure> {
        match self {
            Format::Table => Ok(text()),
            Format::Json => serde_json::to_string(&json())
                .map_err(|error| Failure::other(format!("cannot write JSON: {error}"))),
        }
    }

    /// Prints `text` to people. For programs, the exit code says everything, as an HTTP answer
    /// without content does.
    pub(crate) fn say(self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self {
            Format::Table => line(&text()),
            Format::Json => Ok(()),
        }
    }
}

/// Prints one or more lines, and flushes them.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints `bytes` unchanged.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    match write(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot_write(&error)),
        _ => Ok(()),
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush())
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::other(format!("cannot write to stdout: {error}"))
}
