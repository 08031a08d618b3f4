//! The engine on a store that does as a test says.

#![allow(clippy::unwrap_used)]

mod batches;
mod closing;
mod crowd;
mod holding;
mod hooked;
mod keys;
mod listings;
mod notification;
mod owners;
mod patience;
mod tokens;
