//! The documentation holds together: each link leads somewhere, and each command block is run or marked.

#![allow(clippy::unwrap_used)]

mod blocks;
mod examples;
mod links;
mod literals;
mod names;
mod pages;
mod public_api;
mod rust_blocks;
mod statements;
mod wording;
