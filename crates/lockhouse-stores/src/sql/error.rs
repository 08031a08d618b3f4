//! Why a script did not get through, as [`store::Error`](Error).

use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use sqlx::error::DatabaseError;

use super::dialect::Driver;

/// Why a script did not get through.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The driver, or through it the server, reports an error.
    Driver(sqlx::Error),
    /// No answer in time.
    Late(Duration),
}

impl Trouble {
    /// Whether it is the server that says what is wrong.
    pub(crate) fn is_servers_word(&self) -> bool {
        self.servers_word().is_some()
    }

    /// Whether the connection can be used again, after a rollback.
    pub(crate) fn spares_connection<D: Driver>(&self) -> bool {
        self.is_servers_word() && self.kind::<D>() != Kind::Unavailable
    }

    /// The error of a script whose COMMIT was not reached.
    pub(crate) fn before_commit<D: Driver>(self, context: &str) -> Error {
        let kind = self.kind::<D>();
        self.with_kind::<D>(kind, context)
    }

    /// The error of a script whose COMMIT may have been reached. Only a server that says that it
    /// rolled back is believed.
    pub(crate) fn at_commit<D: Driver>(self, context: &str) -> Error {
        let kind = match self.servers_word() {
            Some(error) if D::is_rolled_back(error) => D::kind(error),
            _ => Kind::Unknown,
        };
        self.with_kind::<D>(kind, context)
    }

    fn kind<D: Driver>(&self) -> Kind {
        match self {
            Trouble::Late(_) => Kind::Unavailable,
            Trouble::Driver(sqlx::Error::Configuration(_) | sqlx::Error::Tls(_)) => {
                Kind::Configuration
            }
            Trouble::Driver(_) => self.servers_word().map_or(Kind::Unavailable, D::kind),
        }
    }

    fn servers_word(&self) -> Option<&dyn DatabaseError> {
        match self {
            Trouble::Driver(error) => error.as_database_error(),
            Trouble::Late(_) => None,
        }
    }

    fn with_kind<D: Driver>(self, kind: Kind, context: &str) -> Error {
        let advice = self.servers_word().and_then(D::advice);
        match (self, advice) {
            (Trouble::Driver(source), Some(advice)) => {
                Error::new(kind, format!("{context}: {advice}")).caused_by(source)
            }
            (Trouble::Driver(source), None) => Error::new(kind, context).caused_by(source),
            (Trouble::Late(after), _) => {
                Error::new(kind, format!("{context}: no answer within {after:.1?}"))
            }
        }
    }
}

/// What the server said that caused `error`, if it was the server.
pub(crate) fn servers_word(error: &Error) -> Option<&dyn DatabaseError> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<sqlx::Error>()?.as_database_error()
}
