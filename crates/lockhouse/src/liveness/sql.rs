//! A check by SQL: `SELECT state = 'running' FROM jobs WHERE id = ?`.
//!
//! Each check has one connection, sends one query at a time, reads only, and has a timeout of 5 s on the client's and on
//! the server's side. So if a database is slow, locked or gone, only its own checks have no verdict.

mod asking;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use async_trait::async_trait;
use lockhouse_core::{Invalid, Owner};
use lockhouse_stores::{refuse_misplaced, without_credentials};

use super::check::{OwnerCheck, Verdict};
use asking::{Said, Trouble};

/// A check that asks a database with a query of one parameter, the owner's name.
///
/// One row with one column that is 1 or true means alive. 0, false or no row means gone. Everything else means unknown:
/// another value, NULL, more rows or columns, an error, or no answer within 5 s.
pub struct SqlCheck {
    database: Database,
    /// The URL, for messages.
    shown: String,
    query: String,
    /// Whether the last query failed: the failure is logged once.
    failing: AtomicBool,
}

enum Database {
    #[cfg(feature = "mysql")]
    MySql(mysql::MySqlCheck),
    #[cfg(feature = "postgres")]
    Postgres(postgres::PostgresCheck),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::SqliteCheck),
}

impl SqlCheck {
    /// A check of the database at `url` (`mysql://…`, `mariadb://…`, `postgres://…` or
    /// `sqlite:PATH`) by `query`. Its parameter is `?`, on PostgreSQL `$1`, and is text.
    ///
    /// This opens no connection yet.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the URL is malformed or names a database that this build does not
    /// support, or if the query has no parameter.
    pub fn new(url: impl AsRef<str>, query: impl Into<String>) -> Result<Self, crate::Error> {
        let (url, query) = (url.as_ref(), query.into());
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let parameter = if scheme.starts_with("postgres") {
            "$1"
        } else {
            "?"
        };
        if !query.contains(parameter) {
            let problem = format!("has no {parameter} for the owner in its query");
            return Err(Invalid::new("check", problem).into());
        }
        let misplaced = |error| Invalid::new("check", format!("has no good URL: {error}"));
        if scheme != "sqlite" {
            refuse_misplaced(url).map_err(misplaced)?;
        }
        let database = match scheme {
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => mysql::MySqlCheck::new(rest).map(Database::MySql),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => postgres::PostgresCheck::new(url).map(Database::Postgres),
            #[cfg(feature = "sqlite")]
            "sqlite" => sqlite::SqliteCheck::new(rest).map(Database::Sqlite),
            _ => Err("this build knows no such database".into()),
        };
        let malformed = |trouble| Invalid::new("check", format!("has no good URL: {trouble}"));
        Ok(Self {
            database: database.map_err(malformed)?,
            shown: without_credentials(url),
            query,
            failing: AtomicBool::new(false),
        })
    }

    async fn ask(&self, owner: &Owner) -> Result<Said, Trouble> {
        match &self.database {
            #[cfg(feature = "mysql")]
            Database::MySql(asked) => asked.ask(&self.query, owner).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(asked) => asked.ask(&self.query, owner).await,
            #[cfg(feature = "sqlite")]
            Database::Sqlite(asked) => asked.ask(&self.query, owner).await,
        }
    }
}

#[async_trait]
impl OwnerCheck for SqlCheck {
    async fn verdict(&self, owner: &Owner) -> Verdict {
        let trouble: Trouble = match self.ask(owner).await {
            Ok(Said::One(1)) => return self.knows(Verdict::Alive),
            Ok(Said::One(0) | Said::NoRow) => return self.knows(Verdict::Gone),
            Ok(_) => "the answer is not one row of 1 or 0".into(),
            Err(trouble) => trouble,
        };
        if self.failing.swap(true, Relaxed) {
            tracing::debug!(check = ?self, %owner, %trouble, "a check does not know");
        } else {
            tracing::warn!(check = ?self, %owner, %trouble, "a check could not tell whether the owner is alive: its permits stay held");
        }
        Verdict::Unknown
    }

    fn at_once(&self) -> usize {
        1
    }
}

impl SqlCheck {
    fn knows(&self, verdict: Verdict) -> Verdict {
        self.failing.store(false, Relaxed);
        verdict
    }
}

/// Omits the query: if a password has a space in it, a part of it would be taken for the query.
impl fmt::Debug for SqlCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlCheck").field(&self.shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_check_is_refused() {
        const QUERY: &str = "SELECT 1 FROM jobs WHERE id = ?";
        for (url, query) in [
            ("mysql://u@h/d", "SELECT 1"),
            ("postgres://u@h/d", QUERY),
            ("redis://h", QUERY),
            ("jobs.db", QUERY),
            ("mysql://u@h:port/d", QUERY),
            ("sqlite:", QUERY),
        ] {
            let refused = SqlCheck::new(url, query);
            assert!(refused.is_err(), "{url} {query}");
        }
    }

    #[test]
    fn a_ca_is_no_use_without_verification() {
        for (url, parameter) in [
            ("mysql://u@h/d?ssl-mode=required&ssl-ca=/ca.pem", "?"),
            ("postgres://u@h/d?sslmode=prefer&sslrootcert=/ca.pem", "$1"),
            // The driver has other names for it.
            ("postgres://u@h/d?ssl-mode=prefer&ssl-ca=/ca.pem", "$1"),
            (
                "postgres://u@h/d?sslmode=prefer&ssl-root-c%65rt=/ca.pem",
                "$1",
            ),
        ] {
            let refused = SqlCheck::new(url, format!("SELECT {parameter}")).unwrap_err();
            let told = refused.to_string();
            assert!(told.contains("verifies nothing"), "{told}");
        }
    }

    #[test]
    fn a_mode_that_ignores_the_host_is_refused_without_a_ca() {
        for (url, parameter) in [
            ("mysql://u@h/d?ssl-mode=verify_ca", "?"),
            ("postgres://u@h/d?sslmode=verify-ca", "$1"),
        ] {
            let refused = SqlCheck::new(url, format!("SELECT {parameter}")).unwrap_err();
            assert!(refused.to_string().contains("needs ssl"), "{refused}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let check = SqlCheck::new("mysql://u:s3cret@h/d", "SELECT ?").unwrap();
        assert!(!format!("{check:?}").contains("s3cret"));
    }
}
