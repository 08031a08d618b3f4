//! Failures, which stderr reports together with what to do.

use std::fmt;

use lockhouse::{Code, Error, Refusal, SemaphoreName};
use lockhouse_wire::Problem;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::complaint::complain;
use crate::exit::Exit;
use crate::format::Format;

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library, a store or a server.
    Lockhouse(Error),
    /// An error of the library, a store or a server, with a better hint from this verb.
    Hinted { error: Error, hint: String },
    /// A signal ended the command. Nothing stays held.
    Interrupted(Signal),
    /// An error of this process.
    Other { exit: Exit, message: String },
}

impl Failure {
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::with_exit(Exit::REFUSED, message)
    }

    pub(crate) fn with_exit(exit: Exit, message: impl Into<String>) -> Self {
        Self::Other {
            exit,
            message: message.into(),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Lockhouse(error) if is_setting(error) => Exit::USAGE,
            Failure::Lockhouse(error) | Failure::Hinted { error, .. } => error.code().into(),
            Failure::Interrupted(signal) => Exit::of_signal(*signal),
            Failure::Other { exit, .. } => *exit,
        }
    }

    /// Reports the failure to people or to programs. An interrupt is not reported, since the user
    /// sent it.
    pub(crate) fn report(&self, output: Format) {
        match (self, output) {
            (Failure::Interrupted(_), _) => {}
            (_, Format::Json) => complain(&json(&self.problem(), self)),
            (Failure::Lockhouse(error), Format::Table) => tell(error, hint(error)),
            (Failure::Hinted { error, hint }, Format::Table) => tell(error, Some(hint.clone())),
            (Failure::Other { message, .. }, Format::Table) => {
                complain(&format!("lockhouse: {message}"));
            }
        }
    }

    /// Reports that the command was skipped because of this failure.
    pub(crate) fn report_skip(&self, output: Format) {
        match output {
            Format::Table => complain(&format!("lockhouse: skipped: {self}")),
            Format::Json => {
                let skipped = Skipped {
                    problem: self.problem(),
                    skipped: true,
                };
                complain(&json(&skipped, self));
            }
        }
    }

    /// The problem document.
    fn problem(&self) -> Problem {
        match self {
            Failure::Lockhouse(error) if is_setting(error) => {
                // The user typed the URL, so this is the user's error and not a server's.
                Problem::new(Code::InvalidRequest, error.to_string())
            }
            Failure::Lockhouse(error) | Failure::Hinted { error, .. } => Problem::from(error),
            Failure::Interrupted(signal) => own_problem(Code::Internal, 500, signal.as_str()),
            Failure::Other { exit, message } => match *exit {
                Exit::USAGE | Exit::NOT_FOUND | Exit::NOT_EXECUTABLE => {
                    own_problem(Code::InvalidRequest, 400, message)
                }
                Exit::LOST => own_problem(Code::RequestEnded, 410, message),
                _ => own_problem(Code::Internal, 500, message),
            },
        }
    }
}

/// The problem document of a command that was skipped.
#[derive(Serialize)]
struct Skipped {
    #[serde(flatten)]
    problem: Problem,
    skipped: bool,
}

/// `document`, or the failure in plain words if it cannot be written: a failure is never silent.
fn json(document: &impl Serialize, failure: &Failure) -> String {
    serde_json::to_string(document).unwrap_or_else(|error| {
        format!("lockhouse: {failure} (its problem document cannot be written: {error})")
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lockhouse(error) | Failure::Hinted { error, .. } => error.fmt(f),
            Failure::Interrupted(signal) => f.write_str(signal.as_str()),
            Failure::Other { message, .. } => f.write_str(message),
        }
    }
}

fn tell(error: &Error, hint: Option<String>) {
    // One line, so that no words of a server pass for another of ours.
    let error = error.to_string();
    let error = error.lines().collect::<Vec<_>>().join(" ");
    complain(&format!("lockhouse: {error}"));
    if let Some(hint) = hint {
        complain(&format!("  try: {hint}"));
    }
}

/// A problem document of this process, with the code and status that a server would use.
fn own_problem(code: Code, status: u16, detail: &str) -> Problem {
    let title = match code {
        Code::Internal => "The command failed".to_owned(),
        _ => Problem::new(code, "").title,
    };
    Problem {
        status,
        title,
        ..Problem::new(code, detail)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lockhouse(error)
    }
}

/// Whether the error remains until an operator corrects the URL, the database or this program.
fn is_setting(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.is_permanent())
}

/// A hint on what to do about the error, if there is one.
fn hint(error: &Error) -> Option<String> {
    let Error::Refused(refusal) = error else {
        return match error.code() {
            Code::Unauthenticated => Some("LOCKHOUSE_TOKEN or --token-file FILE".into()),
            Code::StoreUnavailable if !is_setting(error) => {
                Some("the same command later, or another --url".into())
            }
            _ => None,
        };
    };
    match refusal {
        Refusal::UnknownSemaphore(names) => {
            let name = names.first()?;
            Some(format!("lockhouse create {} CAPACITY", word(name.as_str())))
        }
        Refusal::UnknownRequest(_) => {
            Some("lockhouse holders, which lists all live requests".into())
        }
        Refusal::ExceedsCapacity {
            semaphore, asked, ..
        } => Some(format!(
            "lockhouse resize {} {asked}",
            word(semaphore.as_str())
        )),
        Refusal::Exhausted(names) => Some(format!(
            "a longer --wait; lockhouse holders {} says who holds",
            word(names.first().map_or("", SemaphoreName::as_str))
        )),
        Refusal::Closed(names) => Some(format!(
            "a longer --wait; lockhouse resize {} CAPACITY opens it",
            word(names.first().map_or("", SemaphoreName::as_str))
        )),
        Refusal::IdempotencyConflict(_) => {
            Some("another --id, or the same permits and --owner as before".into())
        }
        Refusal::RequestEnded { .. } => Some("another --id: an id is good for one hold".into()),
        Refusal::CapacityChanged { name, .. } => Some(format!(
            "lockhouse history {} says who changed it",
            word(name.as_str())
        )),
        Refusal::NoTtl(id) => Some(format!("lockhouse renew {} --ttl 60s", word(id.as_str()))),
        Refusal::SemaphoreInUse { name, .. } => Some(format!(
            "lockhouse holders {} says who holds",
            word(name.as_str())
        )),
        _ => None,
    }
}

/// `text` as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_whose_document_cannot_be_written_is_a_sentence() {
        struct Unwritable;

        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no such form"))
            }
        }

        let told = json(&Unwritable, &Failure::other("the disk is full"));
        assert!(
            told.contains("the disk is full") && told.contains("no such form"),
            "{told}"
        );
    }

    #[test]
    fn a_hint_can_be_pasted() {
        let unknown = |name| Refusal::UnknownSemaphore(vec![SemaphoreName::parse(name).unwrap()]);
        assert_eq!(
            hint(&unknown("backup-slots").into()).unwrap(),
            "lockhouse create backup-slots CAPACITY"
        );
        assert_eq!(
            hint(&unknown("ann's $HOME").into()).unwrap(),
            r"lockhouse create 'ann'\''s $HOME' CAPACITY"
        );
    }
}
