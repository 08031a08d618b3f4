//! What the databases have in common when they are asked about an owner.

use std::error::Error;
use std::time::Duration;

#[cfg(any(feature = "mysql", feature = "postgres"))]
use tokio::time::timeout;

/// How long a connection may take, and then an answer.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const CONNECT: Duration = Duration::from_secs(3);
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// After so long without use a connection may have been closed by whatever is in between: a check
/// would not know for no other reason than that.
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

/// What a query answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    NoRow,
    /// One row of one column, and the number or truth in it.
    One(i64),
    Other,
}
