//! The reads, each on one snapshot of the committed rows.

use lockhouse_core::store::{Error, Page};
use lockhouse_core::{CapacityChange, NamePrefix, Owner, SemaphoreName, SemaphoreRow};
use rusqlite::{Connection, Params, Row, params};

use super::error::cannot;
use super::rows;

pub(super) const LIST_SEMAPHORES: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at, slots
    FROM lockhouse_semaphore
    WHERE deleted_at IS NULL AND name > ?1 AND name >= ?3 AND (?4 IS NULL OR name < ?4)
    ORDER BY name LIMIT ?2";

pub(super) const LIST_EVER: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at, slots
    FROM lockhouse_semaphore WHERE name > ?1 ORDER BY name LIMIT ?2";

pub(super) const LIST_CAPACITY_CHANGES: &str = "
    SELECT old_capacity, new_capacity, changed_by, note, changed_at
    FROM lockhouse_capacity_change
    WHERE semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?1)
    ORDER BY id DESC LIMIT ?2";

/// One owner at a time, by the index, so that an owner with many requests costs no more than one
/// with a single request.
pub(super) const NEXT_OWNER: &str = "
    SELECT owner FROM lockhouse_permit_request
    WHERE state = 'ACQUIRED' AND owner > ?1 ORDER BY owner LIMIT 1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LIST_SEMAPHORES,
    LIST_EVER,
    LIST_CAPACITY_CHANGES,
    NEXT_OWNER,
];

/// Semaphores that are not deleted and whose names begin with `prefix`.
pub(super) fn semaphores(
    connection: &Connection,
    prefix: Option<&NamePrefix>,
    page: &Page<SemaphoreName>,
) -> Result<Vec<SemaphoreRow>, Error> {
    let (from, end) = match prefix {
        Some(prefix) => (prefix.as_str(), prefix.end()),
        None => ("", None),
    };
    let key = params![after(page), page.limit, from, end];
    list(connection, LIST_SEMAPHORES, key, rows::semaphore)
}

pub(super) fn semaphores_ever(
    connection: &Connection,
    page: &Page<SemaphoreName>,
) -> Result<Vec<SemaphoreRow>, Error> {
    list(
        connection,
        LIST_EVER,
        params![after(page), page.limit],
        rows::semaphore,
    )
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

/// The rows that `sql` finds for `key`, in its order.
pub(super) fn list<T>(
    connection: &Connection,
    sql: &str,
    key: impl Params,
    parse: impl Fn(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let cannot = cannot("list rows");
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
