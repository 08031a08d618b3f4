//! Deletes old rows, oldest first. There is one writer, so all acquires and releases wait for the
//! purge.
//!
//! It deletes row by row: for `DELETE … WHERE id IN (SELECT …)` the planner scans the table if the
//! statistics say that it is small, right or not.

use std::time::Duration;

use lockhouse_core::store::{Error, Purge};
use lockhouse_core::{Epoch, SemaphoreRow};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::error::cannot;
use super::{clock, load, save};
use crate::time::before;

pub(super) const LIST_REQUESTS: &str = "
    SELECT id FROM lockhouse_permit_request
    WHERE state = 'RELEASED' AND released_at <= ?1 ORDER BY released_at LIMIT ?2";

/// Its permits go with it: ON DELETE CASCADE.
const DELETE_REQUEST: &str = "DELETE FROM lockhouse_permit_request WHERE id = ?1";

pub(super) const LIST_CAPACITY_CHANGES: &str = "
    SELECT id FROM lockhouse_capacity_change
    WHERE changed_at <= ?1 ORDER BY changed_at LIMIT ?2";

const DELETE_CAPACITY_CHANGE: &str = "DELETE FROM lockhouse_capacity_change WHERE id = ?1";

/// The session of an owner that holds permits stays: without it, nothing would end the owner's
/// requests.
pub(super) const LIST_SESSIONS: &str = "
    SELECT session.owner FROM lockhouse_owner_session AS session
    WHERE session.expires_at <= ?1 AND NOT EXISTS (
        SELECT 1 FROM lockhouse_permit_request AS request
        WHERE request.owner = session.owner AND request.state = 'ACQUIRED')
    ORDER BY session.expires_at LIMIT ?2";

const DELETE_SESSION: &str = "DELETE FROM lockhouse_owner_session WHERE owner = ?1";

pub(super) const LIST_SEMAPHORES: &str = "
    SELECT id, fence FROM lockhouse_semaphore
    WHERE deleted_at <= ?1 AND name <> ?3 ORDER BY deleted_at LIMIT ?2";

/// A change belongs to its semaphore.
const DELETE_CHANGES: &str = "DELETE FROM lockhouse_capacity_change WHERE semaphore_id = ?1";

const DELETE_SEMAPHORE: &str = "DELETE FROM lockhouse_semaphore WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LIST_REQUESTS,
    DELETE_REQUEST,
    LIST_CAPACITY_CHANGES,
    DELETE_CAPACITY_CHANGE,
    LIST_SESSIONS,
    DELETE_SESSION,
    LIST_SEMAPHORES,
    DELETE_CHANGES,
    DELETE_SEMAPHORE,
];

/// Deletes at most `limit` rows. Returns how many.
pub(super) fn purge(connection: &Connection, what: Purge, limit: u32) -> Result<u64, Error> {
    let (list, delete, age) = match what {
        Purge::Requests { age } => (LIST_REQUESTS, DELETE_REQUEST, age),
        Purge::CapacityChanges { age } => (LIST_CAPACITY_CHANGES, DELETE_CAPACITY_CHANGE, age),
        Purge::Sessions { age } => (LIST_SESSIONS, DELETE_SESSION, age),
        Purge::Semaphores { age } => return semaphores(connection, age, limit),
    };
    let cutoff = before(clock::now()?, age).as_microsecond();
    let cannot = cannot("delete old rows");
    let mut list = connection.prepare_cached(list).map_err(&cannot)?;
    let keys = list
        .query_map(params![cutoff, limit], |row| row.get(0))
        .and_then(Iterator::collect::<Result<Vec<Value>, _>>)
        .map_err(&cannot)?;
    let mut delete = connection.prepare_cached(delete).map_err(&cannot)?;
    let mut gone = 0;
    for key in keys {
        gone += delete.execute([key]).map_err(&cannot)?;
    }
    Ok(gone as u64)
}

/// The permits of ended requests refer to their semaphores by id, so those requests are deleted
/// first.
fn semaphores(connection: &Connection, age: Duration, limit: u32) -> Result<u64, Error> {
    let (now, epoch) = (clock::now()?, Epoch::semaphore());
    let cutoff = before(now, age).as_microsecond();
    let cannot = cannot("delete old rows");
    let is_kept = connection
        .prepare_cached(LIST_REQUESTS)
        .and_then(|mut requests| requests.exists(params![cutoff, 1]))
        .map_err(&cannot)?;
    if is_kept {
        return Ok(0);
    }
    let mut list = connection
        .prepare_cached(LIST_SEMAPHORES)
        .map_err(&cannot)?;
    let found = list
        .query_map(params![cutoff, limit, epoch.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .and_then(Iterator::collect::<Result<Vec<(i64, i64)>, _>>)
        .map_err(&cannot)?;
    let Some(last_fence) = found.iter().map(|(_, fence)| *fence).max() else {
        return Ok(0);
    };
    let row = load::semaphore(connection, &epoch)?;
    let mut row = row.unwrap_or_else(|| SemaphoreRow::undefined(epoch, now));
    row.fence = row.fence.max(last_fence.cast_unsigned());
    save::write_semaphore(connection, &row)?;
    for statement in [DELETE_CHANGES, DELETE_SEMAPHORE] {
        let mut delete = connection.prepare_cached(statement).map_err(&cannot)?;
        for (id, _) in &found {
            delete.execute([id]).map_err(&cannot)?;
        }
    }
    Ok(found.len() as u64)
}
