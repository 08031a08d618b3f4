//! Checks of owners by SQL, on each database.

#![allow(clippy::unwrap_used)]

mod answers;
mod jobs;
mod silence;
