//! Deletes rows of the past, in one short transaction of few locks.
//!
//! The rows are found by their age without a lock, locked by the key that batches lock them by, and
//! looked at again; one that somebody else has locked is left for the next time. So no purge waits
//! for a batch, none deadlocks with one, and a batch waits for a purge only if it is about a
//! request that is being deleted.

use lockhouse_core::store::{Error, Purge};

use super::Inner;
use super::dialect::Dialect;
use super::due::before;
use super::pool::Lease;
use super::read::{clock, select};
use super::rows::{self, TextRow};
use super::script::list;
use super::transact::WORK;

const CONTEXT: &str = "purging";

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

/// Leaves the transaction open when there is nothing to delete, or something goes wrong.
async fn find_lock_delete<D: Dialect>(
    lease: &mut Lease<D>,
    what: Purge,
    limit: u32,
) -> Result<u64, Error> {
    // What the rows are locked by, and what they are deleted by.
    let (age, key, id) = match what {
        Purge::Requests { age } => (age, Literal::Text, Literal::Number),
        Purge::CapacityChanges { age } => (age, Literal::Number, Literal::Number),
        Purge::Sessions { age } => (age, Literal::Text, Literal::Text),
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

/// What a column is, as a literal.
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
