//! The ids of the rows that a batch changes.

use std::collections::BTreeMap;
use std::fmt::Display;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{ExternalId, SemaphoreName};

/// The ids of the rows that were loaded.
#[derive(Debug, Default)]
pub struct RowIds {
    pub(crate) semaphores: BTreeMap<SemaphoreName, u64>,
    pub(crate) requests: BTreeMap<ExternalId, u64>,
}

impl RowIds {
    /// The id of a semaphore.
    pub(crate) fn semaphore(&self, name: &SemaphoreName) -> Result<u64, Error> {
        let id = self.semaphores.get(name);
        id.copied().ok_or_else(|| not_loaded("semaphore", name))
    }

    /// The id of a request.
    pub(crate) fn request(&self, external_id: &ExternalId) -> Result<u64, Error> {
        let id = self.requests.get(external_id);
        id.copied()
            .ok_or_else(|| not_loaded("request", external_id))
    }
}

fn not_loaded(what: &str, name: impl Display) -> Error {
    Error::new(
        Kind::Rejected,
        format!("{what} \"{name}\" changed though it was not loaded"),
    )
}
