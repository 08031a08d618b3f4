//! Deletes rows of the past, in one short transaction of few locks.
//!
//! The rows are found by their age without a lock, locked by the key that batches lock them by, and
//! looked at again; one that somebody else has locked is left for the next time. So no purge waits
//! for a batch, none deadlocks with one, and a batch waits for a purge only if it is about a
//! request that is being deleted.

use lockhouse_core::Timestamp;
use lockhouse_core::store::{Error, Purge};
use sqlx::mysql::MySqlRow;

use super::Inner;
use super::due::before;
use super::pool::Lease;
use super::read::{clock, select};
use super::rows;
use super::sql::{Script, Text, Time, list};
use super::transact::WORK;

const CONTEXT: &str = "purging";

/// How many rows one statement deletes by a join. One a statement took four times as long.
const JOINED: usize = 100;

pub(super) async fn purge(store: &Inner, what: Purge, limit: u32) -> Result<u64, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let purged = find_lock_delete(&mut lease, what, limit).await;
    lease.roll_back().await;
    purged
}

/// Leaves the transaction open when there is nothing to delete, or something goes wrong.
async fn find_lock_delete(lease: &mut Lease, what: Purge, limit: u32) -> Result<u64, Error> {
    let now = clock(lease, CONTEXT).await?;
    let past = Past::of(what, now);
    let found = select(lease, &Script::of(past.find(limit)), CONTEXT).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let mut script = Script::transaction();
    script.add(past.lock(&list(keys(&found, past.key)?)));
    let locked = lease.run(&script, CONTEXT).await?.pop().unwrap_or_default();
    if locked.is_empty() {
        return Ok(0);
    }
    let script = past.delete(&keys(&locked, past.id)?);
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
fn keys(rows: &[MySqlRow], literal: Literal) -> Result<Vec<String>, Error> {
    let keys = rows.iter().map(|row| match literal {
        Literal::Number => Ok(rows::number::<u64>(row)?.to_string()),
        Literal::Text => Ok(Text(rows::text(row)?.unwrap_or_default()).to_string()),
    });
    keys.collect()
}

/// Rows of one table that may go.
#[derive(Debug)]
pub(super) struct Past {
    what: Purge,
    cutoff: Time,
    /// What the rows are locked by.
    key: Literal,
    /// What the rows are deleted by.
    id: Literal,
}

impl Past {
    pub(super) fn of(what: Purge, now: Timestamp) -> Self {
        let (age, key, id) = match what {
            Purge::Requests { age } => (age, Literal::Text, Literal::Number),
            Purge::CapacityChanges { age } => (age, Literal::Number, Literal::Number),
            Purge::Sessions { age } => (age, Literal::Text, Literal::Text),
        };
        Self {
            what,
            cutoff: Time(before(now, age)),
            key,
            id,
        }
    }

    /// Finds the keys of the oldest, and locks nothing.
    pub(super) fn find(&self, limit: u32) -> String {
        let cutoff = &self.cutoff;
        match self.what {
            Purge::Requests { .. } => format!(
                "SELECT r.external_id FROM lockhouse_permit_request r FORCE INDEX (ended) \
                 WHERE r.released_at<={cutoff} ORDER BY r.released_at LIMIT {limit}"
            ),
            Purge::CapacityChanges { .. } => format!(
                "SELECT c.id FROM lockhouse_capacity_change c FORCE INDEX (changed) \
                 WHERE c.changed_at<={cutoff} ORDER BY c.changed_at LIMIT {limit}"
            ),
            Purge::Sessions { .. } => format!(
                "SELECT w.owner FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
                 LEFT JOIN lockhouse_permit_request r FORCE INDEX (owned) \
                 ON r.state='ACQUIRED' AND r.owner=w.owner \
                 WHERE w.expires_at<={cutoff} AND r.id IS NULL \
                 ORDER BY w.expires_at LIMIT {limit}"
            ),
        }
    }

    /// Locks those of `keys` that nobody else has locked, and says their ids.
    pub(super) fn lock(&self, keys: &str) -> String {
        let cutoff = &self.cutoff;
        match self.what {
            Purge::Requests { .. } => format!(
                "SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (external_id) \
                 WHERE r.external_id IN ({keys}) AND r.state='RELEASED' \
                 AND r.released_at<={cutoff} ORDER BY r.external_id FOR UPDATE SKIP LOCKED"
            ),
            Purge::CapacityChanges { .. } => format!(
                "SELECT c.id FROM lockhouse_capacity_change c FORCE INDEX (PRIMARY) \
                 WHERE c.id IN ({keys}) AND c.changed_at<={cutoff} ORDER BY c.id FOR UPDATE SKIP LOCKED"
            ),
            Purge::Sessions { .. } => format!(
                "SELECT w.owner FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
                 WHERE w.owner IN ({keys}) AND w.expires_at<={cutoff} \
                 ORDER BY w.owner FOR UPDATE SKIP LOCKED"
            ),
        }
    }

    /// Deletes the rows of `ids`, which are locked. A DELETE can't be told an index: where the
    /// table is small, or its statistics are old, one of several rows scans it, and waits for the
    /// rows of others. So it is one by one, or many by a join that looks each of them up.
    pub(super) fn delete(&self, ids: &[String]) -> Script {
        let mut script = Script::new();
        match self.what {
            Purge::Requests { .. } => {
                for some in ids.chunks(JOINED) {
                    let first = some.first().map_or("NULL", String::as_str);
                    let others = some
                        .iter()
                        .skip(1)
                        .map(|id| format!(" UNION ALL SELECT {id}"));
                    let others = others.collect::<String>();
                    for key in [
                        "lockhouse_permit d FORCE INDEX (PRIMARY) ON d.permit_request_id",
                        "lockhouse_permit_request d FORCE INDEX (PRIMARY) ON d.id",
                    ] {
                        script.add(format_args!(
                            "DELETE d FROM (SELECT {first} AS id{others}) k \
                             STRAIGHT_JOIN {key}=k.id"
                        ));
                    }
                }
            }
            Purge::CapacityChanges { .. } => {
                for id in ids {
                    script.add(format_args!(
                        "DELETE FROM lockhouse_capacity_change WHERE id={id}"
                    ));
                }
            }
            Purge::Sessions { .. } => {
                for owner in ids {
                    script.add(format_args!(
                        "DELETE FROM lockhouse_owner_session WHERE owner={owner}"
                    ));
                }
            }
        }
        script.commit();
        script
    }
}
