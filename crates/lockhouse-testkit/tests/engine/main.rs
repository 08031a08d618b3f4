//! The engine on stores whose behaviour the test sets.

#![allow(clippy::unwrap_used)]

mod batches;
mod closing;
mod crowd;
mod holding;
mod hooked;
mod keys;
mod listings;
mod lost;
mod notification;
mod owners;
mod patience;
mod tokens;
