//! Schema migration.

use std::fmt;

use async_trait::async_trait;

use super::Error;

/// Creates and upgrades the schema of a store.
///
/// # Contract
/// - Any number of processes may migrate at once. Each call returns when the schema is up to date.
/// - The next migration finishes one that was interrupted.
/// - A schema that is newer than this version is not changed, and the call fails with
///   [`Kind::Schema`](super::Kind::Schema). The error names the version of the schema.
/// - While the schema is missing or old, the other calls fail with that kind, and the error says to run `lockhouse migrate`.
/// - The duration may grow with the number of rows.
#[async_trait]
pub trait Migration: fmt::Debug + Send + Sync + 'static {
    /// Brings the schema up to this version.
    async fn migrate(&self) -> Result<(), Error>;
}
