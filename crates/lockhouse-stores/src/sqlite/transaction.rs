//! A batch under the write lock.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::store::{Commit, Error, Kind, Transaction};
use lockhouse_core::{Changes, ExternalId, Footprint, Loaded};
use rusqlite::Transaction as Locked;

use super::load::Snapshot;
use super::{error, load, save};

pub(super) struct SqliteTransaction<'c> {
    /// `None` once it is committed.
    locked: Option<Locked<'c>>,
    /// The ids of the rows of the requests that were loaded.
    ids: BTreeMap<ExternalId, i64>,
}

impl<'c> SqliteTransaction<'c> {
    /// In a transaction that has the write lock.
    pub(super) fn new(locked: Locked<'c>) -> Self {
        Self {
            locked: Some(locked),
            ids: BTreeMap::new(),
        }
    }
}

impl Transaction for SqliteTransaction<'_> {
    const TAKES_FOR_NEW: bool = false;

    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error> {
        let locked = self.locked.as_ref().ok_or_else(is_over)?;
        let Snapshot { loaded, ids } = load::snapshot(locked, footprint)?;
        self.ids = ids;
        Ok(loaded)
    }

    async fn save(&mut self, changes: Changes, _: &BTreeSet<&ExternalId>) -> Result<Commit, Error> {
        let locked = self.locked.take().ok_or_else(is_over)?;
        save::changes(&locked, &changes, &self.ids)?;
        locked.commit().map_err(error::commit)?;
        Ok(Commit::Done)
    }
}

fn is_over() -> Error {
    Error::new(Kind::Rejected, "internal error: the transaction is over")
}
