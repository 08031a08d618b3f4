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

mod check;
#[cfg(feature = "remote")]
mod http;
mod pattern;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;

pub use check::{OwnerCheck, Verdict};
#[cfg(feature = "remote")]
pub use http::HttpCheck;
pub use pattern::OwnerPattern;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sql::SqlCheck;
