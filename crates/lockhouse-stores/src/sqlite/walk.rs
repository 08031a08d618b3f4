//! Live requests in the order of an index, for pages of listings; see `crate::walk`.

use lockhouse_core::store::{Cursor, Error, Held, Holders, Page};
use lockhouse_core::{Owner, SemaphoreName};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::error::cannot;
use super::read::list;
use super::{load, rows};
use crate::walk::{IndexEntry, IndexRange, Stretch, Walk};

/// Live requests from the group ?1 on.
pub(super) const FROM: &str = "
    SELECT only_semaphore_id, id, 1
    FROM lockhouse_permit_request INDEXED BY lockhouse_permit_request_live
    WHERE state = 'ACQUIRED' AND only_semaphore_id >= ?1
    ORDER BY only_semaphore_id, id LIMIT ?2";

/// Live requests in the group ?1, after ?3: those that hold permits of the semaphore ?4, or all.
pub(super) const IN: &str = "
    SELECT only_semaphore_id, id, ?4 IS NULL OR EXISTS (
        SELECT 1 FROM lockhouse_permit AS permit
        WHERE permit.permit_request_id = request.id AND permit.semaphore_id = ?4)
    FROM lockhouse_permit_request AS request INDEXED BY lockhouse_permit_request_live
    WHERE state = 'ACQUIRED' AND only_semaphore_id = ?1 AND id > ?3
    ORDER BY id LIMIT ?2";

/// [`FROM`] and [`IN`], for the live requests of one owner.
pub(super) const OWNED_FROM: &str = "
    SELECT only_semaphore_id, id, 1
    FROM lockhouse_permit_request INDEXED BY lockhouse_permit_request_live_by_owner
    WHERE state = 'ACQUIRED' AND owner = ?3 AND only_semaphore_id >= ?1
    ORDER BY only_semaphore_id, id LIMIT ?2";

pub(super) const OWNED_IN: &str = "
    SELECT only_semaphore_id, id, ?4 IS NULL OR EXISTS (
        SELECT 1 FROM lockhouse_permit AS permit
        WHERE permit.permit_request_id = request.id AND permit.semaphore_id = ?4)
    FROM lockhouse_permit_request AS request INDEXED BY lockhouse_permit_request_live_by_owner
    WHERE state = 'ACQUIRED' AND owner = ?5 AND only_semaphore_id = ?1 AND id > ?3
    ORDER BY id LIMIT ?2";

const SELECT_LIVE: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by, finished_at
    FROM lockhouse_permit_request WHERE id = ?1";

const SELECT_SEMAPHORE: &str =
    "SELECT id FROM lockhouse_semaphore WHERE name = ?1 AND deleted_at IS NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FROM, IN, OWNED_FROM, OWNED_IN];

/// Reads a page on one snapshot, so the index and the rows agree.
pub(super) fn holders(
    connection: &Connection,
    of: &Holders,
    page: &Page<Cursor>,
) -> Result<Held, Error> {
    let on = match &of.on {
        None => None,
        Some(name) => match semaphore_id(connection, name)? {
            None => return Ok(Held::default()),
            found => found,
        },
    };
    let walk = Walk::new(on, page);
    let found = walk.stretches().iter();
    let found = found.map(|stretch| entries(connection, of.owner.as_ref(), stretch));
    let (ids, next) = walk.page(found.collect::<Result<Vec<_>, Error>>()?);
    let mut permits = load::Permits::new(connection)?;
    let mut requests = Vec::new();
    for id in ids.into_iter().map(u64::cast_signed) {
        for (id, mut request) in list(connection, SELECT_LIVE, [id], rows::request)? {
            request.permits = permits.of(id)?;
            requests.push(request);
        }
    }
    Ok(Held { requests, next })
}

fn semaphore_id(connection: &Connection, name: &SemaphoreName) -> Result<Option<u64>, Error> {
    let found = connection
        .prepare_cached(SELECT_SEMAPHORE)
        .and_then(|mut select| {
            let id = select.query_row([name.as_str()], |row| row.get::<_, i64>(0));
            id.optional()
        });
    let found = found.map_err(cannot("look for a semaphore"))?;
    Ok(found.map(i64::cast_unsigned))
}

fn entries(
    connection: &Connection,
    owner: Option<&Owner>,
    stretch: &Stretch,
) -> Result<Vec<IndexEntry>, Error> {
    let (group, after) = match stretch.range {
        IndexRange::In { group, after } => (group.cast_signed(), Some(after.cast_signed())),
        IndexRange::From { group } => (group.cast_signed(), None),
    };
    let holds = stretch.holds.map(u64::cast_signed);
    let limit = stretch.limit as i64;
    let owner = owner.map(Owner::as_str);
    let read = |sql: &str, key: &[&dyn ToSql]| list(connection, sql, key, rows::entry);
    match (after, owner) {
        (None, None) => read(FROM, params![group, limit]),
        (None, Some(owner)) => read(OWNED_FROM, params![group, limit, owner]),
        (Some(after), None) => read(IN, params![group, limit, after, holds]),
        (Some(after), Some(owner)) => read(OWNED_IN, params![group, limit, after, holds, owner]),
    }
}
