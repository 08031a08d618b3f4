//! The engine on a store that does as a test says.

#![allow(clippy::unwrap_used)]

mod batches;
mod bell;
mod closing;
mod crowd;
mod holding;
mod hooked;
mod keys;
mod listings;
mod owners;
mod patience;
mod tokens;
