//! What went wrong in a store.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Footprint, Outcome};

/// What kind of trouble a store has, which says what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Another transaction was in the way: a deadlock or a serialization failure. Nothing was applied;
    /// try the whole batch again.
    Conflict,
    /// A lock wait timed out. Nothing was applied. [`Error::locked`] names the rows that are still
    /// locked: only the commands that need them have to wait.
    Locked,
    /// The connection or the server was lost, or could not be had. Nothing was applied; try again
    /// on a fresh connection.
    Unavailable,
    /// The server has no connection left to give. Nothing was applied; one comes free before long,
    /// and whoever waits for it is in nobody's way.
    Crowded,
    /// The commit was sent and its answer was lost. Ask again to find out.
    Unknown,
    /// The store turned down what it was sent; trying the same again is no use. In a batch of
    /// several commands one of them may be to blame, so each may be tried on its own.
    Rejected,
    /// The schema is missing, older or newer than what this version needs.
    Schema,
    /// The URL or its options make no sense.
    Configuration,
}

/// What went wrong in a store.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    decided: Vec<Outcome>,
    locked: Box<Footprint>,
}

impl Error {
    /// An error of `kind`; `context` says what was being done.
    pub fn new(kind: Kind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
            decided: Vec::new(),
            locked: Box::default(),
        }
    }

    /// The same with what caused it.
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same of a batch for which this was decided before it was sent to be committed.
    pub fn after_deciding(mut self, outcomes: Vec<Outcome>) -> Self {
        self.decided = outcomes;
        self
    }

    /// What was decided, one outcome a command: if the batch was applied, it was with these. Empty if
    /// that isn't known.
    pub fn decided(&self) -> &[Outcome] {
        &self.decided
    }

    /// The same of a batch that needs these rows, which another transaction keeps locked.
    pub fn while_locked(mut self, rows: Footprint) -> Self {
        self.locked = Box::new(rows);
        self
    }

    /// The rows that another transaction kept locked when a lock wait [timed out](Kind::Locked). Empty if
    /// they were free again by the time the store looked for them.
    pub fn locked(&self) -> &Footprint {
        &self.locked
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether trying again can help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            Kind::Conflict | Kind::Locked | Kind::Unavailable | Kind::Crowded | Kind::Unknown
        )
    }

    /// Whether the store is there, and kept busy by others: a call with time left goes on waiting. So is one whose
    /// time ran out while the store was.
    pub fn is_busy(&self) -> bool {
        match self.kind {
            Kind::Conflict | Kind::Locked | Kind::Crowded => true,
            Kind::Unavailable | Kind::Unknown => {
                let mut cause = self.source();
                while let Some(error) = cause {
                    if let Some(store) = as_store_error(error) {
                        return store.is_busy();
                    }
                    cause = error.source();
                }
                false
            }
            Kind::Rejected | Kind::Schema | Kind::Configuration => false,
        }
    }

    /// Whether the batch may have been applied.
    pub fn maybe_applied(&self) -> bool {
        self.kind == Kind::Unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The calls of one batch share its error.
fn as_store_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let shared = || cause.downcast_ref::<Arc<Error>>().map(Arc::as_ref);
    cause.downcast_ref().or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_busy_if_one_of_its_causes_is() {
        for (kind, is_busy) in [
            (Kind::Conflict, true),
            (Kind::Locked, true),
            (Kind::Crowded, true),
            (Kind::Unavailable, false),
            (Kind::Unknown, false),
            (Kind::Rejected, false),
        ] {
            let first = || Error::new(kind, "the first try");
            let late = || Error::new(Kind::Unknown, "too late").caused_by(first());
            assert_eq!(first().is_busy(), is_busy, "{kind:?}");
            assert_eq!(late().is_busy(), is_busy, "{kind:?}");
            let shared = Error::new(Kind::Unknown, "failed").caused_by(Arc::new(late()));
            assert_eq!(shared.is_busy(), is_busy, "{kind:?}");
        }
    }
}
