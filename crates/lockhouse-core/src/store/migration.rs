//! The schema, brought up to date.

use std::fmt;

use async_trait::async_trait;

use super::Error;

/// Creates and upgrades what a store keeps its rows in.
///
/// # Contract
/// - Any number of processes may migrate at once. Each call returns when the schema is there.
/// - A migration that was interrupted is finished by the next.
/// - A schema that is newer than this version stays as it is, and the call fails with [`Kind::Schema`](super::Kind::Schema).
/// - It may take as long as the rows that there are need.
#[async_trait]
pub trait Migration: fmt::Debug + Send + Sync + 'static {
    /// Brings the schema up to this version.
    async fn migrate(&self) -> Result<(), Error>;
}
