//! What a batch touches, read under the write lock.
//!
//! The lock is on the whole file, so the order of loading is free: requests first, then all the
//! semaphores, those included that only the requests tell of. One pass is enough.

use lockhouse_core::store::{Batch, Error};
use lockhouse_core::{
    Command, ExternalId, Loaded, Owner, OwnerSession, Request, Semaphore, SemaphoreName, Timestamp,
};
use rusqlite::Connection;

use super::error::{cannot, unreadable};
use super::rows;

const SELECT_SEMAPHORE: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at
    FROM lockhouse_semaphore WHERE name = ?1";

const SELECT_REQUEST: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by
    FROM lockhouse_permit_request WHERE external_id = ?1";

const SELECT_PERMITS: &str = "
    SELECT semaphore.name, permit.count, permit.fence
    FROM lockhouse_permit AS permit
    CROSS JOIN lockhouse_semaphore AS semaphore ON semaphore.id = permit.semaphore_id
    WHERE permit.permit_request_id = ?1 ORDER BY semaphore.name";

const SELECT_SESSION: &str = "
    SELECT owner, ttl_ms, expires_at FROM lockhouse_owner_session WHERE owner = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    SELECT_SEMAPHORE,
    SELECT_REQUEST,
    SELECT_PERMITS,
    SELECT_SESSION,
];

/// The clock, and the footprint of `batch`.
pub(super) fn loaded(connection: &Connection, batch: &Batch) -> Result<Loaded, Error> {
    let mut footprint = batch.footprint.clone();
    let mut loaded = Loaded {
        now: now()?,
        semaphores: Default::default(),
        requests: Default::default(),
        owners: Default::default(),
    };
    for external_id in &footprint.requests {
        if let Some(request) = request(connection, external_id)? {
            loaded.requests.insert(external_id.clone(), request);
        }
    }
    footprint.grow(&batch.commands, &loaded);
    for name in &footprint.semaphores {
        if let Some(semaphore) = semaphore(connection, name)? {
            loaded.semaphores.insert(name.clone(), semaphore);
        }
    }
    for owner in &footprint.owners {
        if let Some(session) = session(connection, owner)? {
            loaded.owners.insert(owner.clone(), session);
        }
    }
    make_ready(&batch.commands, &mut loaded);
    Ok(loaded)
}

/// The semaphore called `name`, even if it is deleted.
pub(super) fn semaphore(
    connection: &Connection,
    name: &SemaphoreName,
) -> Result<Option<Semaphore>, Error> {
    let cannot = cannot("load a semaphore");
    let mut select = connection
        .prepare_cached(SELECT_SEMAPHORE)
        .map_err(&cannot)?;
    let mut found = select.query([name.as_str()]).map_err(&cannot)?;
    found
        .next()
        .map_err(&cannot)?
        .map(rows::semaphore)
        .transpose()
}

/// The request known by `external_id`, live or ended, with its permits.
pub(super) fn request(
    connection: &Connection,
    external_id: &ExternalId,
) -> Result<Option<Request>, Error> {
    let cannot = cannot("load a request");
    let mut select = connection.prepare_cached(SELECT_REQUEST).map_err(&cannot)?;
    let mut found = select.query([external_id.as_str()]).map_err(&cannot)?;
    let Some(row) = found.next().map_err(&cannot)? else {
        return Ok(None);
    };
    let (id, mut request) = rows::request(row)?;
    add_permits(connection, id, &mut request)?;
    Ok(Some(request))
}

/// Reads the permits of the request whose row has `id`.
pub(super) fn add_permits(
    connection: &Connection,
    id: i64,
    request: &mut Request,
) -> Result<(), Error> {
    let cannot = cannot("load permits");
    let mut select = connection.prepare_cached(SELECT_PERMITS).map_err(&cannot)?;
    let mut found = select.query([id]).map_err(&cannot)?;
    while let Some(row) = found.next().map_err(&cannot)? {
        request.permits.push(rows::permit(row)?);
    }
    Ok(())
}

fn session(connection: &Connection, owner: &Owner) -> Result<Option<OwnerSession>, Error> {
    let cannot = cannot("load an owner's session");
    let mut select = connection.prepare_cached(SELECT_SESSION).map_err(&cannot)?;
    let mut found = select.query([owner.as_str()]).map_err(&cannot)?;
    found
        .next()
        .map_err(&cannot)?
        .map(rows::session)
        .transpose()
}

/// This machine's clock, in the microseconds that the file keeps: an answer given now is the one
/// that is read later.
pub(super) fn now() -> Result<Timestamp, Error> {
    let us = Timestamp::now().as_microsecond();
    Timestamp::from_microsecond(us).map_err(|why| unreadable("time", why))
}

/// Makes the names that `commands` make ready, where they are not there yet.
fn make_ready(commands: &[Command], loaded: &mut Loaded) {
    for name in commands.iter().filter_map(Command::makes) {
        loaded
            .semaphores
            .entry(name.clone())
            .or_insert_with(|| Semaphore::made_ready(name.clone(), loaded.now));
    }
}
