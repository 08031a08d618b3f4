//! Shows how hand-written locks break, and checks histories of calls against the promises.
//!
//! - [`history`] has the records of clients, and the checker that compares them with Lockhouse's promises.
//! - [`strategy`] has the locks that people write in SQL, one file each, and [`redis`] those on Redis.
//! - [`lab`] runs the same scenes with the locks in SQL and with Lockhouse, on any database that the lab is given.
//! - [`gate`] shows the effect of a stale writer, with a fence gate and without.
//! - [`clock`] sets the clock that a process sees while it runs.
//!
//! The program `lockhouse-lab` and the tests share this code, so both show the same. The operator's `lockhouse` has none of
//! it.

pub mod clock;
pub mod gate;
pub mod history;
pub mod lab;
pub mod redis;
mod scene;
pub mod strategy;

use std::error::Error;

/// An error that keeps the lab from running. People read it, so it names the failed step.
pub type Failed = Box<dyn Error + Send + Sync>;
