//! What is MySQL's and MariaDB's own, on real servers.
//!
//! `scripts/services up` starts them, and `eval "$(scripts/services env)"` says where they are.
//! Without them these tests are left out, unless `LOCKHOUSE_TEST_FULL=1`.
#![cfg(feature = "mysql")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod breaking;
mod database;
mod due;
mod locking;
mod migrating;
mod owners;
mod proxy;
mod purging;
mod recounting;
#[cfg(feature = "sabotage")]
mod sabotage;
mod schema;
mod texts;
