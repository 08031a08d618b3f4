//! Shared parts of the SQL checks.

use std::error::Error;
use std::time::Duration;

#[cfg(any(feature = "mysql", feature = "postgres"))]
use tokio::time::timeout;

/// How long connecting may take, and how long an answer may take.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const CONNECT: Duration = Duration::from_secs(3);
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// After this long without use, a firewall or proxy may have closed the connection. The check then
/// opens a new one, so that it does not answer "unknown" for that reason alone.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const FRESH: Duration = Duration::from_secs(10);

pub(super) type Trouble = Box<dyn Error + Send + Sync>;

#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) async fn within<T, E>(
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

/// A query that has no parameter would say the same of every owner.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn takes_one(parameters: usize) -> Result<(), Trouble> {
    match parameters {
        1 => Ok(()),
        _ => Err(format!("the query has {parameters} parameters, and takes one").into()),
    }
}

/// The answer of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    NoRow,
    /// One row of one column, with a number or a boolean.
    One(i64),
    Other,
}
