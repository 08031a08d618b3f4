//! The reads, each on one snapshot of what is committed.

use lockhouse_core::store::{Error, Holders, Page};
use lockhouse_core::{CapacityChange, ExternalId, Owner, Request, Semaphore, SemaphoreName};
use rusqlite::{Connection, Params, Row, params};

use super::error::cannot;
use super::{load, rows};

pub(super) const LIST_SEMAPHORES: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line
    FROM lockhouse_semaphore WHERE deleted_at IS NULL AND name > ?1 ORDER BY name LIMIT ?2";

pub(super) const LIST_EVER: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line
    FROM lockhouse_semaphore WHERE name > ?1 ORDER BY name LIMIT ?2";

pub(super) const LIST_LIVE: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by
    FROM lockhouse_permit_request
    WHERE state = 'ACQUIRED' AND external_id > ?1 ORDER BY external_id LIMIT ?2";

pub(super) const LIST_LIVE_ON: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by
    FROM lockhouse_permit_request AS request
    WHERE state = 'ACQUIRED' AND external_id > ?1 AND EXISTS (
        SELECT 1 FROM lockhouse_permit AS permit
        WHERE permit.permit_request_id = request.id
            AND permit.semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?3))
    ORDER BY external_id LIMIT ?2";

pub(super) const LIST_OWNED: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by
    FROM lockhouse_permit_request INDEXED BY lockhouse_permit_request_live_by_owner
    WHERE state = 'ACQUIRED' AND owner = ?3 AND external_id > ?1 ORDER BY external_id LIMIT ?2";

pub(super) const LIST_OWNED_ON: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by
    FROM lockhouse_permit_request AS request INDEXED BY lockhouse_permit_request_live_by_owner
    WHERE state = 'ACQUIRED' AND owner = ?3 AND external_id > ?1 AND EXISTS (
        SELECT 1 FROM lockhouse_permit AS permit
        WHERE permit.permit_request_id = request.id
            AND permit.semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?4))
    ORDER BY external_id LIMIT ?2";

pub(super) const LIST_CAPACITY_CHANGES: &str = "
    SELECT old_capacity, new_capacity, changed_by, note, changed_at
    FROM lockhouse_capacity_change
    WHERE semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?1)
    ORDER BY id DESC LIMIT ?2";

/// One at a time, each by the index: an owner of many requests costs no more than one of one.
pub(super) const NEXT_OWNER: &str = "
    SELECT owner FROM lockhouse_permit_request
    WHERE state = 'ACQUIRED' AND owner > ?1 ORDER BY owner LIMIT 1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LIST_SEMAPHORES,
    LIST_EVER,
    LIST_LIVE,
    LIST_LIVE_ON,
    LIST_OWNED,
    LIST_OWNED_ON,
    LIST_CAPACITY_CHANGES,
    NEXT_OWNER,
];

pub(super) fn semaphores(
    connection: &Connection,
    page: &Page<SemaphoreName>,
    sql: &str,
) -> Result<Vec<Semaphore>, Error> {
    let key = params![after(page), page.limit];
    list(connection, sql, key, rows::semaphore)
}

pub(super) fn holders(
    connection: &Connection,
    of: &Holders,
    page: &Page<ExternalId>,
) -> Result<Vec<Request>, Error> {
    let (after, limit) = (after(page), page.limit);
    let found = match (&of.on, &of.owner) {
        (None, None) => list(connection, LIST_LIVE, params![after, limit], rows::request)?,
        (Some(name), None) => {
            let key = params![after, limit, name.as_str()];
            list(connection, LIST_LIVE_ON, key, rows::request)?
        }
        (None, Some(owner)) => {
            let key = params![after, limit, owner.as_str()];
            list(connection, LIST_OWNED, key, rows::request)?
        }
        (Some(name), Some(owner)) => {
            let key = params![after, limit, owner.as_str(), name.as_str()];
            list(connection, LIST_OWNED_ON, key, rows::request)?
        }
    };
    let mut permits = load::Permits::new(connection)?;
    let with_permits = found.into_iter().map(|(id, mut request)| {
        request.permits = permits.of(id)?;
        Ok(request)
    });
    with_permits.collect()
}

pub(super) fn history(
    connection: &Connection,
    name: &SemaphoreName,
    limit: u32,
) -> Result<Vec<CapacityChange>, Error> {
    let change = |row: &Row<'_>| rows::capacity_change(row, name);
    list(
        connection,
        LIST_CAPACITY_CHANGES,
        params![name.as_str(), limit],
        change,
    )
}

pub(super) fn owners(connection: &Connection, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
    let mut owners: Vec<Owner> = Vec::new();
    while owners.len() < page.limit as usize {
        let last = owners.last().map_or(after(page), Owner::as_str);
        let next = list(connection, NEXT_OWNER, [last], rows::owner)?;
        if next.is_empty() {
            break;
        }
        owners.extend(next);
    }
    Ok(owners)
}

/// What `sql` finds for `key`, in its order.
pub(super) fn list<T>(
    connection: &Connection,
    sql: &str,
    key: impl Params,
    parse: impl Fn(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let cannot = cannot("list what it keeps");
    let mut select = connection.prepare_cached(sql).map_err(&cannot)?;
    let mut found = select.query(key).map_err(&cannot)?;
    let mut list = Vec::new();
    while let Some(row) = found.next().map_err(&cannot)? {
        list.push(parse(row)?);
    }
    Ok(list)
}

/// The key to begin after. No name or id is empty, so all come after "".
fn after<K: AsRef<str>>(page: &Page<K>) -> &str {
    page.after.as_ref().map_or("", AsRef::as_ref)
}
