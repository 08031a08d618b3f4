//! Checks of owners, and their verdicts.

use async_trait::async_trait;
use lockhouse_core::Owner;

/// The verdict of a check about an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The owner lives.
    Alive,
    /// The owner is gone for good. Two such answers in a row end all that the owner holds.
    Gone,
    /// The check does not know. Nothing ends, and an earlier answer no longer counts.
    Unknown,
}

/// A way to find out whether an owner lives.
///
/// Checks run independently of each other, and ask about each owner in a separate task. An answer that takes longer than
/// 10 s counts as [`Unknown`](Verdict::Unknown). So a slow or failing check delays no other.
///
/// ```
/// use lockhouse::Owner;
/// use lockhouse::liveness::{OwnerCheck, Verdict};
///
/// #[derive(Debug)]
/// struct Processes;
///
/// #[async_trait::async_trait]
/// impl OwnerCheck for Processes {
///     async fn verdict(&self, owner: &Owner) -> Verdict {
///         match owner.as_str().strip_prefix("pid-") {
///             None => Verdict::Unknown,
///             Some(pid) if std::path::Path::new("/proc").join(pid).exists() => Verdict::Alive,
///             Some(_) => Verdict::Gone,
///         }
///     }
///
///     fn at_once(&self) -> usize {
///         1 // a look at /proc is quick
///     }
/// }
/// ```
#[async_trait]
pub trait OwnerCheck: std::fmt::Debug + Send + Sync + 'static {
    /// The verdict about `owner`.
    async fn verdict(&self, owner: &Owner) -> Verdict;

    /// The most owners that the check is asked about at once. By default 16.
    fn at_once(&self) -> usize {
        16
    }
}
