//! Reads the rows that a batch touches, under the write lock. The lock is on the whole file, so the
//! order of loading does not matter.

use std::collections::BTreeMap;

use lockhouse_core::store::Error;
use lockhouse_core::{
    ExternalId, Footprint, Grant, Loaded, Owner, OwnerSession, Request, SemaphoreName, SemaphoreRow,
};
use rusqlite::{CachedStatement, Connection};

use super::error::{cannot, unreadable};
use super::{clock, rows, templates};

const SELECT_SEMAPHORE: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at, slots
    FROM lockhouse_semaphore WHERE name = ?1";

const SELECT_REQUEST: &str = "
    SELECT id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by, finished_at
    FROM lockhouse_permit_request WHERE external_id = ?1";

const SELECT_PERMITS: &str = "
    SELECT semaphore_id, count, fence, slots FROM lockhouse_permit WHERE permit_request_id = ?1";

const SELECT_NAME: &str = "SELECT name FROM lockhouse_semaphore WHERE id = ?1";

const SELECT_SESSION: &str = "
    SELECT owner, ttl_ms, expires_at FROM lockhouse_owner_session WHERE owner = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    SELECT_SEMAPHORE,
    SELECT_REQUEST,
    SELECT_PERMITS,
    SELECT_NAME,
    SELECT_SESSION,
];

/// The loaded rows, and the ids of the requests' rows.
pub(super) struct Snapshot {
    pub(super) loaded: Loaded,
    pub(super) ids: BTreeMap<ExternalId, i64>,
}

/// The clock, and the rows of `footprint`.
pub(super) fn snapshot(connection: &Connection, footprint: &Footprint) -> Result<Snapshot, Error> {
    let mut loaded = Loaded {
        now: clock::now()?,
        semaphores: Default::default(),
        requests: Default::default(),
        owners: Default::default(),
        templates: Vec::new(),
    };
    let mut ids = BTreeMap::new();
    let mut requests = Requests::new(connection)?;
    for external_id in &footprint.requests {
        if let Some((id, request)) = requests.find(external_id)? {
            loaded.requests.insert(external_id.clone(), request);
            ids.insert(external_id.clone(), id);
        }
    }
    for name in footprint.semaphores_to_read() {
        if let Some(semaphore) = semaphore(connection, &name)? {
            loaded.semaphores.insert(name, semaphore);
        }
    }
    if footprint.templates {
        loaded.templates = templates::all(connection)?;
    }
    for owner in &footprint.owners {
        if let Some(session) = session(connection, owner)? {
            loaded.owners.insert(owner.clone(), session);
        }
    }
    Ok(Snapshot { loaded, ids })
}

/// The semaphore called `name`, even if it is deleted.
pub(super) fn semaphore(
    connection: &Connection,
    name: &SemaphoreName,
) -> Result<Option<SemaphoreRow>, Error> {
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
    let found = Requests::new(connection)?.find(external_id)?;
    Ok(found.map(|(_, request)| request))
}

/// Reads requests, one after another, by statements that are prepared once.
pub(super) struct Requests<'c> {
    select: CachedStatement<'c>,
    permits: Permits<'c>,
}

impl<'c> Requests<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Error> {
        Ok(Self {
            select: prepare(connection, SELECT_REQUEST)?,
            permits: Permits::new(connection)?,
        })
    }

    /// The request known by `external_id`, live or ended, with its permits; and the id of its row.
    pub(super) fn find(
        &mut self,
        external_id: &ExternalId,
    ) -> Result<Option<(i64, Request)>, Error> {
        let cannot = cannot("load a request");
        let mut found = self.select.query([external_id.as_str()]).map_err(&cannot)?;
        let Some(row) = found.next().map_err(&cannot)? else {
            return Ok(None);
        };
        let (id, mut request) = rows::request(row)?;
        request.permits = self.permits.of(id)?;
        Ok(Some((id, request)))
    }
}

/// Reads the permits of requests, one after another. The name of each semaphore is read once.
pub(super) struct Permits<'c> {
    select: CachedStatement<'c>,
    select_name: CachedStatement<'c>,
    names: BTreeMap<i64, SemaphoreName>,
}

impl<'c> Permits<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Error> {
        Ok(Self {
            select: prepare(connection, SELECT_PERMITS)?,
            select_name: prepare(connection, SELECT_NAME)?,
            names: BTreeMap::new(),
        })
    }

    /// The permits of the request whose row has `id`, in the order of the semaphores' names.
    pub(super) fn of(&mut self, id: i64) -> Result<Vec<Grant>, Error> {
        let cannot = cannot("load permits");
        let mut permits = Vec::new();
        let mut found = self.select.query([id]).map_err(&cannot)?;
        while let Some(row) = found.next().map_err(&cannot)? {
            let name = |id| name(&mut self.select_name, &mut self.names, id);
            permits.push(rows::permit(row, name)?);
        }
        permits.sort_unstable_by(|one: &Grant, other| one.semaphore.cmp(&other.semaphore));
        Ok(permits)
    }
}

/// The name of the semaphore whose row has `id`.
fn name(
    select: &mut CachedStatement<'_>,
    known: &mut BTreeMap<i64, SemaphoreName>,
    id: i64,
) -> Result<SemaphoreName, Error> {
    if let Some(name) = known.get(&id) {
        return Ok(name.clone());
    }
    let cannot = cannot("load a semaphore's name");
    let mut found = select.query([id]).map_err(&cannot)?;
    let row = found.next().map_err(&cannot)?;
    let row = row.ok_or_else(|| {
        unreadable(
            "lockhouse_permit.semaphore_id",
            format!("no semaphore has the id {id}"),
        )
    })?;
    let name = rows::name(row)?;
    known.insert(id, name.clone());
    Ok(name)
}

fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>, Error> {
    connection
        .prepare_cached(sql)
        .map_err(cannot("prepare a statement"))
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
