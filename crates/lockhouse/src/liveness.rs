//! Asking whether an owner lives, for owners that are jobs elsewhere.

use async_trait::async_trait;
use lockhouse_core::Owner;

#[cfg(feature = "remote")]
mod http;
mod pattern;

#[cfg(feature = "remote")]
pub use http::HttpCheck;
pub use pattern::OwnerPattern;

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
/// It is asked about one owner at a time, in a task of its own, and given up on as
/// [`Unknown`](Verdict::Unknown) after 10 s, so a slow or failing one harms nobody else.
#[async_trait]
pub trait OwnerCheck: std::fmt::Debug + Send + Sync + 'static {
    /// What is known of `owner`.
    async fn verdict(&self, owner: &Owner) -> Verdict;
}
