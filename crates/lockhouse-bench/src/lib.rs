//! How fast Lockhouse is on a database, and what it is held against.
//!
//! [`load`] has a number of clients acquire and release as fast as they are answered, through a
//! [`Contender`](contender::Contender): Lockhouse itself, or a yardstick. What came of it is
//! [`Measured`](measured::Measured).

pub mod contender;
mod holds;
pub mod load;
pub mod machine;
pub mod measured;
pub mod options;
pub mod print;
pub mod progress;
pub mod report;
pub mod shape;
pub mod suite;

use std::error::Error;

/// What keeps a benchmark from running. It is for people to read, so it says what was being done.
pub type Failed = Box<dyn Error + Send + Sync>;
