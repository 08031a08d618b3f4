//! Exit codes, as the main help lists them.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use lockhouse::Code;
use nix::sys::signal::Signal;

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const OK: Exit = Exit(0);
    pub(crate) const REFUSED: Exit = Exit(1);
    pub(crate) const USAGE: Exit = Exit(64);
    pub(crate) const UNAVAILABLE: Exit = Exit(69);
    pub(crate) const EXHAUSTED: Exit = Exit(75);
    pub(crate) const LOST: Exit = Exit(76);
    pub(crate) const NOT_EXECUTABLE: Exit = Exit(126);
    pub(crate) const NOT_FOUND: Exit = Exit(127);

    /// The code that a shell reports for a process that a signal ended.
    pub(crate) fn of_signal(signal: Signal) -> Self {
        Self::of_signal_number(signal as i32)
    }

    /// The code that a shell reports for a command.
    pub(crate) fn of_command(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::of_signal_number(signal),
            (None, None) => Self::REFUSED,
        }
    }

    fn of_signal_number(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    pub(crate) fn code(self) -> i32 {
        self.0.into()
    }
}

impl From<Code> for Exit {
    fn from(code: Code) -> Self {
        match code {
            Code::InvalidRequest => Self::USAGE,
            Code::StoreUnavailable | Code::Overloaded => Self::UNAVAILABLE,
            Code::Exhausted => Self::EXHAUSTED,
            _ => Self::REFUSED,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.0)
    }
}
