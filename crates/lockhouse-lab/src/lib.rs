//! How locks that are written by hand break, and the checker that sees it.
//!
//! [`history`] has what clients record and the checker that holds it against Lockhouse's promises;
//! [`strategy`] has the locks that people write in SQL, a file each, and [`redis`] those on Redis; [`lab`] puts them through the same
//! scenes as Lockhouse, on any database. [`gate`] shows what a stale writer does, with a fence gate and without.
//!
//! The program `lockhouse-lab` and the tests share it, so a reader sees what the tests see. Nothing of it is in the
//! operator's `lockhouse`.

pub mod gate;
pub mod history;
pub mod lab;
pub mod redis;
mod scene;
pub mod strategy;

use std::error::Error;

/// An error that keeps the lab from running. People read it, so it names the failed step.
pub type Failed = Box<dyn Error + Send + Sync>;
