//! A check by SQL: `SELECT state = 'running' FROM jobs WHERE id = ?`.
//!
//! Each check has one connection of its own, asks one question at a time, reads only, and gives up
//! after 5 s, on its side and on the server's. So a database that is slow, locked or gone costs
//! nobody anything but the verdicts that it would have given.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Invalid, Owner};
use lockhouse_stores::{refuse_misplaced, without_credentials};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use tokio::time::timeout;

use super::{OwnerCheck, Verdict};

/// How long a connection may take, and then an answer.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(5);

/// After so long without use a connection may have been closed by whatever is in between: a check
/// would not know for no other reason than that.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const FRESH: Duration = Duration::from_secs(10);

type Trouble = Box<dyn StdError + Send + Sync>;

/// Asks a database with a query that has one parameter, which is bound to the owner's name.
///
/// One row with one column that is 1 or true is alive. 0 or false is gone, and so is no row. All
/// else is unknown: another value, NULL, more rows or columns, an error, no answer within 5 s.
pub struct SqlCheck {
    database: Database,
    /// The URL, for messages.
    shown: String,
    query: String,
    /// Whether the last answer was none, which is told once.
    failing: AtomicBool,
}

enum Database {
    #[cfg(feature = "mysql")]
    MySql(mysql::Asked),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Asked),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Asked),
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
async fn within<T, E>(
    limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble>
where
    E: Into<Trouble>,
{
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(format!("no answer within {limit:?}").into()),
    }
}

/// Whether the query of `url` has one of the parameters `keys`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn names_a(url: &str, keys: &[&str]) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut named = query.split('&').filter_map(|pair| pair.split('=').next());
    named.any(|key| keys.contains(&key))
}

/// A CA that verifies nothing, as the URL says that nothing is verified.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const NO_USE: &str = "it names a CA and verifies nothing; say verify, or leave the CA out";

/// A query that has no parameter would say the same of every owner.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn takes_one(parameters: usize) -> Result<(), Trouble> {
    match parameters {
        1 => Ok(()),
        _ => Err(format!("the query has {parameters} parameters, and takes one").into()),
    }
}

/// What a query answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    NoRow,
    /// One row of one column, and the number or truth in it.
    One(i64),
    Other,
}

impl SqlCheck {
    /// A check of the database at `url` (`mysql://…`, `mariadb://…`, `postgres://…` or
    /// `sqlite:PATH`) by `query`. Its parameter is `?`, on PostgreSQL `$1`, and is text.
    ///
    /// Nothing is connected to yet.
    ///
    /// # Errors
    /// `invalid_request` when the URL is malformed or of no database that this build knows, or the
    /// query has no parameter.
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
            "mysql" | "mariadb" => mysql::Asked::new(rest).map(Database::MySql),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => postgres::Asked::new(url).map(Database::Postgres),
            #[cfg(feature = "sqlite")]
            "sqlite" => sqlite::Asked::new(rest).map(Database::Sqlite),
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
            tracing::warn!(check = ?self, %owner, %trouble, "a check does not know; nobody is freed by it");
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

/// Without the query: a piece of a password with a space in it would be taken for one.
impl fmt::Debug for SqlCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlCheck").field(&self.shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
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
        ] {
            let refused = SqlCheck::new(url, format!("SELECT {parameter}")).unwrap_err();
            assert!(refused.to_string().contains(NO_USE), "{refused}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let check = SqlCheck::new("mysql://u:s3cret@h/d", "SELECT ?").unwrap();
        assert!(!format!("{check:?}").contains("s3cret"));
    }
}
