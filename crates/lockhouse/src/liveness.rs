//! Liveness checks of owners, such as jobs of a scheduler: ask an HTTP endpoint or a database whether an owner lives, and
//! release the permits of those that are gone.
//!
//! ```
//! # #[cfg(all(feature = "remote", feature = "sqlite"))]
//! # fn main() -> Result<(), lockhouse::Error> {
//! use std::sync::Arc;
//! use lockhouse::liveness::{HttpCheck, OwnerPattern, SqlCheck};
//! use lockhouse::Upkeep;
//!
//! let by_http = HttpCheck::new("https://jobs.example/jobs/{owner}")?;
//! let by_sql = SqlCheck::new("sqlite:jobs.db", "SELECT state = 'running' FROM jobs WHERE id = ?")?;
//! let upkeep = Upkeep {
//!     checks: vec![
//!         (OwnerPattern::new("job-*"), Arc::new(by_http)),
//!         (OwnerPattern::new("*"), Arc::new(by_sql)),
//!     ],
//!     ..Upkeep::default()
//! };
//! # drop(upkeep);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "remote", feature = "sqlite")))]
//! # fn main() {}
//! ```

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

/// What a check knows about an owner.
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
/// }
/// ```
#[async_trait]
pub trait OwnerCheck: std::fmt::Debug + Send + Sync + 'static {
    /// What the check knows about `owner`.
    async fn verdict(&self, owner: &Owner) -> Verdict;

    /// The most owners that the check is asked about at once.
    fn at_once(&self) -> usize {
        16
    }
}
