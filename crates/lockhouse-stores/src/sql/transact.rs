//! A batch on a database server: two packets. The first begins a transaction, locks and reads; the second writes and commits.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockhouse_core::store::{self, Batch, Commit, Error, Kind, Transaction};
use lockhouse_core::{
    Changes, ExternalId, Footprint, Key, Loaded, Outcome, SemaphoreRow, Timestamp,
};
use sqlx::error::DatabaseError;

use super::Inner;
use super::dialect::Dialect;
use super::error::{alone, servers_word};
use super::gap;
use super::known::Known;
use super::load::{self, Snapshot};
use super::locked;
use super::pool::{CALL, Lease};
use super::row_ids::RowIds;
use super::script::Script;

/// How long one attempt may work.
pub(crate) const WORK: Duration = Duration::from_secs(7);

const CONTEXT: &str = "doing a batch";

/// How many tries of a batch may be interrupted while no row refuses it. The pool interrupts each later
/// than the one before, unless another batch meets a locked gap meanwhile.
const SLOW_TRIES: usize = 3;

/// Executes `batch` in one transaction. If that was interrupted, and not at a row that it inserted,
/// the server is only slow, and the next try may take longer.
pub(crate) async fn transact<D: Dialect>(
    store: &Inner<D>,
    batch: &Batch,
) -> Result<Vec<Outcome>, Error> {
    for _ in 0..SLOW_TRIES {
        match try_once(store, batch, true).await {
            Err(error) if error.locked().is_empty() && is_interrupted::<D>(&error) => {
                store.pool.patience().grow();
            }
            outcomes => return outcomes,
        }
    }
    try_once(store, batch, false).await
}

fn is_interrupted<D: Dialect>(error: &Error) -> bool {
    error.kind() == Kind::Locked && servers_word(error).is_some_and(D::is_interrupted)
}

async fn try_once<D: Dialect>(
    store: &Inner<D>,
    batch: &Batch,
    is_interruptible: bool,
) -> Result<Vec<Outcome>, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    if !is_interruptible {
        lease.wait_for_gaps();
    }
    let mut transaction = SqlTransaction {
        store,
        lease,
        begun: Instant::now(),
        touched: batch.footprint.clone(),
        now: None,
        ids: RowIds::default(),
        refused: None,
    };
    let outcomes = store::transact(&mut transaction, batch).await;
    let SqlTransaction {
        mut lease,
        touched,
        refused,
        ..
    } = transaction;
    lease.roll_back().await;
    match outcomes {
        Err(error) if error.kind() == Kind::Locked => {
            let locked = match refused {
                // All rows of the batch were locked by then, or it had not locked any yet.
                Some(key) => {
                    store.pool.patience().shrink();
                    gap::around(&mut lease, key).await?
                }
                // It was at none of them, so it did not wait for a lock.
                None if is_interrupted::<D>(&error) => Footprint::default(),
                // Hundreds of processes may want this one row, so another look would only add load.
                None if touched.locks_one_row() => touched,
                None => locked::still_locked(&mut lease, &touched).await?,
            };
            Err(error.while_locked(locked))
        }
        Err(error) if batch.commands.len() == 1 => Err(alone(error)),
        outcomes => outcomes,
    }
}

struct SqlTransaction<'a, D: Dialect> {
    store: &'a Inner<D>,
    lease: Lease<D>,
    begun: Instant,
    /// All rows that were to be locked.
    touched: Footprint,
    /// The ids of the rows that were loaded, and when.
    ids: RowIds,
    now: Option<Timestamp>,
    /// The key of the row whose INSERT waited for another transaction's lock.
    refused: Option<Key>,
}

impl<D: Dialect> Transaction for SqlTransaction<'_, D> {
    const TAKES_FOR_NEW: bool = true;

    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error> {
        self.lease.roll_back().await;
        self.touched.extend(footprint.clone());
        let answers = self
            .lease
            .run(&load::script::<D>(footprint), CONTEXT)
            .await?;
        let mut snapshot = load::snapshot(footprint, answers)?;
        add_permits(&mut self.lease, &self.store.known, &mut snapshot).await?;
        self.ids = snapshot.ids;
        self.now = Some(snapshot.loaded.now);
        Ok(snapshot.loaded)
    }

    async fn save(
        &mut self,
        changes: Changes,
        absent: &BTreeSet<&ExternalId>,
    ) -> Result<Commit, Error> {
        if changes.is_empty() {
            return match self.is_known(absent).await? {
                true => Ok(self.outdated()),
                false => Ok(Commit::Done),
            };
        }
        if self.insert_missing(&changes.semaphores).await? {
            return Ok(self.outdated());
        }
        let granted = &changes.granted;
        let new = granted.iter().map(|request| request.external_id.clone());
        let now = self.now.unwrap_or_default();
        let drawn = self.store.ids.take(granted.len(), now);
        self.ids.requests.extend(new.zip(drawn));
        let mut script = Script::new();
        if !absent.is_empty() {
            script.add(load::known::<D>(D::NONE_EXIST, absent));
        }
        let script = D::save(script, &changes, &self.ids)?;
        match self.lease.run(&script, CONTEXT).await {
            Ok(_) => {
                remember(&self.store.known, &changes, &self.ids);
                Ok(Commit::Done)
            }
            Err(error) if servers_word(&error).is_some_and(D::says_some_exist) => {
                Ok(self.outdated())
            }
            Err(error) if servers_word(&error).is_some_and(DatabaseError::is_unique_violation) => {
                // The external id was not new, or another process has drawn the same row id.
                self.store.ids.redraw();
                Ok(self.outdated())
            }
            Err(error) => {
                if error.kind() == Kind::Locked {
                    let sessions = &changes.heartbeats;
                    let lease = &mut self.lease;
                    self.refused = gap::refused(lease, &script, &self.ids, sessions).await;
                }
                Err(error)
            }
        }
    }
}

impl<D: Dialect> SqlTransaction<'_, D> {
    /// The next attempt gets the full time for its work.
    fn outdated(&mut self) -> Commit {
        let left = CALL.saturating_sub(self.begun.elapsed());
        self.lease.extend(WORK.min(left));
        Commit::Outdated
    }

    /// Whether a request with one of `ids` exists, where there is nothing to save. The transaction ends before the read, so
    /// that no other waits for its locks.
    async fn is_known(&mut self, ids: &BTreeSet<&ExternalId>) -> Result<bool, Error> {
        if ids.is_empty() {
            return Ok(false);
        }
        let script = Script::after_rollback(load::known::<D>("r.id", ids));
        let answers = self.lease.run(&script, CONTEXT).await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }

    /// Inserts rows for those of `semaphores` that have none. Returns whether there were any.
    ///
    /// It uses a separate transaction: two transactions that lock the same missing row and then
    /// insert it would deadlock. Here, the second one finds the row.
    async fn insert_missing(&mut self, semaphores: &[SemaphoreRow]) -> Result<bool, Error> {
        let has_row = |semaphore: &&SemaphoreRow| self.ids.semaphore(&semaphore.name).is_ok();
        let missing = semaphores.iter().filter(|semaphore| !has_row(semaphore));
        let missing: Vec<_> = missing
            .map(|semaphore| SemaphoreRow::undefined(semaphore.name.clone(), semaphore.created_at))
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        self.lease.roll_back().await;
        let script = D::insert_missing(&missing);
        let made = self.lease.run(&script, CONTEXT).await.map(|_| true);
        if matches!(&made, Err(error) if error.kind() == Kind::Locked) {
            self.refused = gap::refused(&mut self.lease, &script, &self.ids, &[]).await;
        }
        made
    }
}

/// Adds the permits to the loaded requests.
async fn add_permits<D: Dialect>(
    lease: &mut Lease<D>,
    known: &Known,
    snapshot: &mut Snapshot,
) -> Result<(), Error> {
    let mut unknown = Vec::new();
    for (external_id, request) in &mut snapshot.loaded.requests {
        let id = snapshot.ids.request(external_id)?;
        match known.permits(id) {
            Some(permits) => request.permits = permits,
            None => unknown.push(id),
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let answers = lease.run(&D::permits(&unknown), CONTEXT).await?;
    let mut permits = load::permits(answers.first().map_or(&[], Vec::as_slice), 0)?;
    for (external_id, request) in &mut snapshot.loaded.requests {
        let id = snapshot.ids.request(external_id)?;
        if let Some(permits) = permits.remove(&id) {
            known.insert(id, permits.clone());
            request.permits = permits;
        }
    }
    Ok(())
}

/// Caches the saved permits.
fn remember(known: &Known, changes: &Changes, ids: &RowIds) {
    for request in &changes.granted {
        if let Ok(id) = ids.request(&request.external_id) {
            known.insert(id, request.permits.clone());
        }
    }
    for ended in &changes.ended {
        if let Ok(id) = ids.request(&ended.external_id) {
            known.remove(id);
        }
    }
}
