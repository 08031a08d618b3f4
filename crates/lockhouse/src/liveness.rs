//! Asking whether an owner lives, for owners that are jobs elsewhere.

use async_trait::async_trait;
use lockhouse_core::Owner;

#[cfg(feature = "remote")]
mod http;
mod pattern;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;

#[cfg(feature = "remote")]
pub use http::HttpCheck;
pub use pattern::OwnerPattern;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sql::SqlCheck;

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It lives.
    Alive,
    /// It is gone for good. Heard twice in a row, it frees all that the owner holds.
    Gone,
    /// Nobody knows. It frees nothing, and a verdict of before does not count any more.
    Unknown,
}

/// A way to find out whether an owner lives.
///
/// Each goes round by itself, and is asked about each owner in a task of its own, and given up on as
/// [`Unknown`](Verdict::Unknown) after 10 s. So a slow or failing one harms nobody else.
#[async_trait]
pub trait OwnerCheck: std::fmt::Debug + Send + Sync + 'static {
    /// What is known of `owner`.
    async fn verdict(&self, owner: &Owner) -> Verdict;

    /// How many owners it is asked about at once, at most.
    fn at_once(&self) -> usize {
        16
    }
}
