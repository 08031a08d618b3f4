//! Errors of stores.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Footprint, Outcome};

/// The kind of an error, which decides what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Another transaction conflicted: a deadlock or a serialization failure. Nothing was applied.
    /// Retry the whole batch.
    Conflict,
    /// A lock wait timed out. Nothing was applied. [`Error::locked`] names the rows that are still
    /// locked. Only the commands that need them have to wait.
    Locked,
    /// The server could not be reached, or the connection was lost. Nothing was applied. Retry on a
    /// new connection.
    Unavailable,
    /// The server has no free connection. Nothing was applied. Retry until the deadline: a
    /// connection becomes free soon, and waiting for it blocks nobody.
    Crowded,
    /// The commit was sent and its answer was lost. Repeat the batch to find out.
    Unknown,
    /// The store rejected the statement, and would do so again. One command of a batch may be the
    /// cause, so each command may be tried alone.
    Rejected,
    /// The schema is missing, older or newer than what this version needs.
    Schema,
    /// The URL or its options are invalid.
    Configuration,
}

impl Kind {
    /// The kinds of errors after which a retry can help, unless the error is
    /// [permanent](Error::is_permanent).
    pub const TRANSIENT: [Self; 5] = [
        Self::Conflict,
        Self::Locked,
        Self::Unavailable,
        Self::Crowded,
        Self::Unknown,
    ];
}

/// An error of a store.
///
/// ```
/// use std::io;
///
/// use lockhouse_core::store::{Error, Kind};
///
/// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
/// let error = Error::new(Kind::Unavailable, "connecting").caused_by(refused);
/// assert!(error.is_transient() && !error.maybe_applied());
/// assert!(!error.permanent().is_transient());
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    decided: Vec<Outcome>,
    locked: Box<Footprint>,
    is_permanent: bool,
}

impl Error {
    /// An error of `kind`. `context` says what failed.
    pub fn new(kind: Kind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
            decided: Vec::new(),
            locked: Box::default(),
            is_permanent: matches!(kind, Kind::Schema | Kind::Configuration),
        }
    }

    /// This error with `source` as its cause.
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Marks this error as [permanent](Error::is_permanent), whatever its kind.
    pub fn permanent(mut self) -> Self {
        self.is_permanent = true;
        self
    }

    /// Adds the `outcomes` that were decided for the batch before its commit was sent.
    pub fn after_deciding(mut self, outcomes: Vec<Outcome>) -> Self {
        self.decided = outcomes;
        self
    }

    /// The outcomes of the batch, one for each command, which are right if it was applied. Empty if
    /// they are not known.
    pub fn decided(&self) -> &[Outcome] {
        &self.decided
    }

    /// Adds the `rows` that the batch needs and that another transaction keeps locked.
    pub fn while_locked(mut self, rows: Footprint) -> Self {
        self.locked = Box::new(rows);
        self
    }

    /// The rows that another transaction kept locked when a lock wait [timed out](Kind::Locked).
    /// Empty if they were free again when the store checked.
    pub fn locked(&self) -> &Footprint {
        &self.locked
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a retry can help.
    pub fn is_transient(&self) -> bool {
        Kind::TRANSIENT.contains(&self.kind) && !self.is_permanent
    }

    /// Whether the error remains until an operator corrects the URL, the database, a certificate or
    /// this program. Each retry before that fails in the same way. All errors of [`Kind::Schema`] and
    /// [`Kind::Configuration`] are permanent. So is the error of a server's certificate that cannot be
    /// verified, whose kind is [`Kind::Unavailable`].
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// Whether the store answers but other calls keep it busy, so that a call with time left should
    /// go on waiting. This includes a call whose time ran out meanwhile.
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

/// The store's error that `cause` is. It may be in an [`Arc`], since all calls of one batch share its error.
fn as_store_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let shared = || cause.downcast_ref::<Arc<Error>>().map(Arc::as_ref);
    cause.downcast_ref().or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permanent_error_is_not_transient() {
        let unavailable = || Error::new(Kind::Unavailable, "not verified");
        assert!(unavailable().is_transient() && !unavailable().is_permanent());
        let permanent = unavailable().permanent();
        assert!(permanent.is_permanent() && !permanent.is_transient());
        assert!(Error::new(Kind::Schema, "too new").is_permanent());
    }

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
