//! Maps the failures of a script to a [`store::Error`](Error).

use std::fmt;
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use rustls::CertificateError;
use sqlx::error::DatabaseError;

use super::driver::{Driver, ReadOnly};

/// A script that is longer than the server accepts.
#[derive(Debug)]
pub(crate) struct TooLong {
    pub(crate) bytes: usize,
    /// The server's name for its limit.
    pub(crate) limit: &'static str,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, limit } = self;
        write!(
            f,
            "{bytes} bytes of SQL are more than the server takes at once; raise its {limit}"
        )
    }
}

impl std::error::Error for TooLong {}

/// Why a script failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The driver, or through it the server, reports an error.
    Driver(sqlx::Error),
    /// The server reports that the statement was interrupted, since this process asked it to.
    Interrupted(sqlx::Error),
    /// No answer in time.
    Late(Duration),
}

impl Trouble {
    /// The failure of a script that this process asked the server to interrupt.
    pub(crate) fn interrupted<D: Driver>(self) -> Self {
        match self {
            Trouble::Driver(error) if error.as_database_error().is_some_and(D::is_interrupted) => {
                Trouble::Interrupted(error)
            }
            other => other,
        }
    }

    /// Whether the server itself reported the error.
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

    /// The error of a script whose COMMIT may have been reached. It counts as not applied only if
    /// the server says that it rolled back.
    pub(crate) fn at_commit<D: Driver>(self, context: &str) -> Error {
        let kind = match self.servers_word() {
            Some(error) if D::is_rolled_back(error) => D::kind(error),
            _ => Kind::Unknown,
        };
        self.with_kind::<D>(kind, context)
    }

    /// The error of a script in a session that may not write, if that is why it failed.
    pub(crate) fn into_read_only<D: Driver>(
        self,
        read_only: ReadOnly,
        context: &str,
    ) -> Result<Error, Self> {
        match self {
            Trouble::Driver(source) if source.as_database_error().is_some_and(D::is_read_only) => {
                let context = format!("{context}: {}", read_only.advice);
                Ok(Error::new(read_only.kind, context).caused_by(source))
            }
            other => Err(other),
        }
    }

    fn kind<D: Driver>(&self) -> Kind {
        match self {
            Trouble::Late(_) => Kind::Unavailable,
            Trouble::Interrupted(_) => Kind::Locked,
            Trouble::Driver(sqlx::Error::Configuration(_) | sqlx::Error::Tls(_)) => {
                Kind::Configuration
            }
            _ if self.certificate().is_some() => Kind::Configuration,
            Trouble::Driver(_) => self.servers_word().map_or(Kind::Unavailable, D::kind),
        }
    }

    fn servers_word(&self) -> Option<&dyn DatabaseError> {
        match self {
            Trouble::Driver(error) | Trouble::Interrupted(error) => error.as_database_error(),
            Trouble::Late(_) => None,
        }
    }

    /// The problem with the server's certificate, if that is the cause.
    fn certificate(&self) -> Option<&CertificateError> {
        let Trouble::Driver(sqlx::Error::Io(error)) = self else {
            return None;
        };
        match error.get_ref()?.downcast_ref()? {
            rustls::Error::InvalidCertificate(error) => Some(error),
            _ => None,
        }
    }

    fn with_kind<D: Driver>(self, kind: Kind, context: &str) -> Error {
        let advice = match self.certificate() {
            Some(error) => Some(advice_on(error)),
            None => self.servers_word().and_then(D::advice),
        };
        match (self, advice) {
            (Trouble::Driver(source) | Trouble::Interrupted(source), Some(advice)) => {
                Error::new(kind, format!("{context}: {advice}")).caused_by(source)
            }
            (Trouble::Driver(source) | Trouble::Interrupted(source), None) => {
                Error::new(kind, context).caused_by(source)
            }
            (Trouble::Late(after), _) => {
                Error::new(kind, format!("{context}: no answer within {after:.1?}"))
            }
        }
    }
}

fn advice_on(certificate: &CertificateError) -> &'static str {
    match certificate {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another host; write a host that it names into the URL, \
             or give the server a certificate that names this host, or verify its CA alone by \
             sslmode=verify-ca (PostgreSQL) or ssl-mode=verify_ca (MySQL, MariaDB)"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it"
        }
        _ => {
            "the server's certificate is not trusted; name the CA that signed it in the URL's \
             ssl-ca (MySQL, MariaDB) or sslrootcert (PostgreSQL)"
        }
    }
}

/// The error for a batch of one command. If that is too long it cannot be split, and an operator
/// has to change the server's limit.
pub(crate) fn alone(error: Error) -> Error {
    let source = std::error::Error::source(&error);
    match source.and_then(|source| source.downcast_ref::<TooLong>()) {
        Some(too_long) => Error::new(Kind::Configuration, too_long.to_string()),
        None => error,
    }
}

/// The server's error that caused `error`, if there is one.
pub(crate) fn servers_word(error: &Error) -> Option<&dyn DatabaseError> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<sqlx::Error>()?.as_database_error()
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::io;

    use rustls::pki_types::ServerName;

    use super::*;
    use crate::postgres::PostgresServer;

    #[test]
    fn a_certificate_for_another_host_says_what_to_do() {
        let mismatch =
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("10.0.0.1").unwrap(),
                presented: vec!["DnsName(\"db.example\")".into()],
            });
        let error = sqlx::Error::Io(io::Error::new(io::ErrorKind::InvalidData, mismatch));
        let told = Trouble::Driver(error).before_commit::<PostgresServer>("no connection");
        assert_eq!(told.kind(), Kind::Configuration);
        let text = told.to_string();
        assert!(text.contains("a host that it names"), "{text}");
        assert!(text.contains("verify-ca"), "{text}");
    }
}
