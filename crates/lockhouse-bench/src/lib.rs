//! Measures how fast Lockhouse is on a database, and compares it with other systems.
//!
//! In [`load`] a number of clients acquire and release as fast as they get answers, through a
//! [`Contender`](contender::Contender): Lockhouse itself, or a system to compare it with. The result is a
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

/// An error that keeps a benchmark from running. People read it, so it names the failed step.
pub type Failed = Box<dyn Error + Send + Sync>;
