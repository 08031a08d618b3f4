//! The stores on a database server, on real ones.
//!
//! `scripts/services up` starts them, and `eval "$(scripts/services env)"` says where they are.
//! Without them these tests are left out, unless `LOCKHOUSE_TEST_FULL` is set.
#![cfg(all(feature = "mysql", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod breaking;
mod database;
mod due;
mod gaps;
mod locking;
mod migrating;
mod misconfigured;
mod mysql;
mod notifier;
mod owners;
mod postgres;
mod proxy;
mod purging;
mod recounting;
mod schema;
mod session;
mod upgrading;
mod user;
