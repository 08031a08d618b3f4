//! Deletes old rows, in one short transaction with few locks.
//!
//! The purge finds rows by their age without a lock, locks them by the same key as batches do, and
//! checks them again. It leaves rows that another transaction has locked for the next time. So no
//! purge waits for a batch or deadlocks with one, and a batch waits for a purge only if it names a
//! request that is being deleted.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind, Purge};
use lockhouse_core::{Epoch, SemaphoreRow, Timestamp};

use super::Inner;
use super::dialect::Dialect;
use super::pool::Lease;
use super::read::{clock, select};
use super::rows::{self, TextRow};
use super::script::{Script, list};
use super::transact::WORK;
use crate::time::before;

const CONTEXT: &str = "purging";

/// How long the row of the epoch must have existed before the row of a deleted semaphore is purged.
/// A call that found no such row ends sooner, so every call that is still under way sees the
/// epoch's fence.
const SETTLED: Duration = Duration::from_secs(10);

pub(crate) async fn purge<D: Dialect>(
    store: &Inner<D>,
    what: Purge,
    limit: u32,
) -> Result<u64, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let purged = find_lock_delete(&mut lease, what, limit).await;
    lease.roll_back().await;
    purged
}

/// Leaves the transaction open if there is nothing to delete, or an error occurs.
async fn find_lock_delete<D: Dialect>(
    lease: &mut Lease<D>,
    what: Purge,
    limit: u32,
) -> Result<u64, Error> {
    // The literals by which the rows are found and locked, and by which they are deleted.
    let (age, key, id) = match what {
        Purge::Requests { age } => (age, Literal::Text, Literal::Number),
        Purge::CapacityChanges { age } => (age, Literal::Number, Literal::Number),
        Purge::Sessions { age } => (age, Literal::Text, Literal::Text),
        Purge::Semaphores { age } => return purge_semaphores(lease, what, age, limit).await,
    };
    let cutoff = before(clock(lease, CONTEXT).await?, age);
    let found = select(lease, &D::find_past(what, cutoff, limit), CONTEXT).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let keys = list(literals::<D>(&found, key)?);
    let locked = select(lease, &D::lock_past(what, cutoff, &keys), CONTEXT).await?;
    if locked.is_empty() {
        return Ok(0);
    }
    let script = D::delete_past(what, &literals::<D>(&locked, id)?);
    lease.run(&script, CONTEXT).await?;
    Ok(locked.len() as u64)
}

/// Deletes rows of deleted semaphores, unless a request is kept that ended more than `age` ago. The permits of such a request
/// refer to their semaphores by id, so the request must be deleted first.
async fn purge_semaphores<D: Dialect>(
    lease: &mut Lease<D>,
    what: Purge,
    age: Duration,
    limit: u32,
) -> Result<u64, Error> {
    let now = clock(lease, CONTEXT).await?;
    let cutoff = before(now, age);
    let requests = D::find_past(Purge::Requests { age }, cutoff, 1);
    if !select(lease, &requests, CONTEXT).await?.is_empty() {
        return Ok(0);
    }
    let found = select(lease, &D::find_past(what, cutoff, limit), CONTEXT).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let fences = found.iter().map(rows::second_number);
    let fences: Vec<u64> = fences.collect::<Result<_, _>>()?;
    let last_fence = fences.into_iter().max().unwrap_or_default();
    let epoch = raise_epoch(lease, last_fence, now).await?;
    if epoch.created_at > before(now, SETTLED) {
        return Ok(0);
    }
    let keys = list(literals::<D>(&found, Literal::Text)?);
    let locked = select(lease, &D::lock_past(what, cutoff, &keys), CONTEXT).await?;
    let mut ids = Vec::new();
    for row in &locked {
        if rows::second_number(row)? <= epoch.fence {
            ids.push(rows::number::<u64>(row)?.to_string());
        }
    }
    if ids.is_empty() {
        return Ok(0);
    }
    lease.run(&D::delete_past(what, &ids), CONTEXT).await?;
    Ok(ids.len() as u64)
}

/// Raises the fence of the epoch's row to `fence`, if it is lower, and commits. Returns the row.
async fn raise_epoch<D: Dialect>(
    lease: &mut Lease<D>,
    fence: u64,
    now: Timestamp,
) -> Result<SemaphoreRow, Error> {
    let row = SemaphoreRow::undefined(Epoch::semaphore(), now);
    lease.run(&D::insert_missing(&[row]), CONTEXT).await?;
    let name = D::text(Epoch::semaphore().as_str()).to_string();
    let [table, ..] = &D::BY_KEY;
    let (table, key) = (table.table, table.key);
    let mut raise = Script::transaction(D::BEGIN);
    raise.add(format_args!(
        "UPDATE {table} SET fence={fence} WHERE {key}={name} AND s.fence<{fence}"
    ));
    raise.commit();
    lease.run(&raise, CONTEXT).await?;
    let read = Script::of(format_args!(
        "SELECT {} FROM {table} WHERE {key}={name}",
        rows::SEMAPHORE
    ));
    let found = select(lease, &read, CONTEXT).await?;
    let row = found.first().ok_or_else(|| {
        let problem = "the row of the epoch is gone; run `lockhouse epoch`";
        Error::new(Kind::Rejected, problem)
    })?;
    Ok(rows::semaphore(row)?.1)
}

/// The kind of literal of a column.
#[derive(Clone, Copy, Debug)]
enum Literal {
    Number,
    Text,
}

/// The first column of each row.
fn literals<D: Dialect>(rows: &[impl TextRow], literal: Literal) -> Result<Vec<String>, Error> {
    let literals = rows.iter().map(|row| match literal {
        Literal::Number => Ok(rows::number::<u64>(row)?.to_string()),
        Literal::Text => Ok(D::text(rows::text(row)?.unwrap_or_default()).to_string()),
    });
    literals.collect()
}
