//! The tools that test Lockhouse's stores: real servers, a conformance suite that any store passes
//! by one line, and checks of a database's own rows.
//!
//! This crate is for tests, so its functions panic where something is wrong.

mod answers;
pub mod broken;
pub mod clock;
pub mod conformance;
pub mod database;
pub mod drill;
mod each_store;
pub mod life;
pub mod linear;
pub mod link;
pub mod place;
pub mod private_server;
pub mod redis;
pub mod replicated;
pub mod rows;
mod schema_copy;
#[cfg(feature = "simulation")]
pub mod simulation;
mod statement;
pub mod stoppable;
pub mod store_conformance;
pub mod torture;
pub mod watched;

pub use lockhouse_lab::history::{self, audit};
