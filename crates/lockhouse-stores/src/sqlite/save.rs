//! What was decided, written row by row: SQLite runs in process, so a statement is no round trip.

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    CapacityChange, Changes, Ended, Owner, OwnerSession, Renewed, Request, Semaphore, Timestamp,
};
use rusqlite::{Connection, Error as Driver, Params, params};

use super::error::cannot;
use super::rows::{ACQUIRED, RELEASED};

/// The usual change, which touches no index.
const UPDATE_SEMAPHORE: &str = "
    UPDATE lockhouse_semaphore SET capacity = ?2, in_use = ?3, fence = ?4, updated_at = ?6
    WHERE name = ?1 AND created_at = ?5 AND deleted_at IS ?7";

/// What is created, deleted or comes back.
const UPSERT_SEMAPHORE: &str = "
    INSERT INTO lockhouse_semaphore
        (name, capacity, in_use, fence, created_at, updated_at, deleted_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (name) DO UPDATE SET
        capacity = excluded.capacity, in_use = excluded.in_use, fence = excluded.fence,
        created_at = excluded.created_at, updated_at = excluded.updated_at,
        deleted_at = excluded.deleted_at";

const INSERT_REQUEST: &str = "
    INSERT INTO lockhouse_permit_request
        (external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const INSERT_PERMIT: &str = "
    INSERT INTO lockhouse_permit (permit_request_id, semaphore_id, count, fence)
    VALUES (?1, (SELECT id FROM lockhouse_semaphore WHERE name = ?2), ?3, ?4)";

const RENEW_REQUEST: &str = "
    UPDATE lockhouse_permit_request SET ttl_ms = ?2, expires_at = ?3
    WHERE external_id = ?1 AND state = 'ACQUIRED'";

const END_REQUEST: &str = "
    UPDATE lockhouse_permit_request
    SET state = 'RELEASED', end_reason = ?2, released_at = ?3, ended_by = ?4
    WHERE external_id = ?1 AND state = 'ACQUIRED'";

const INSERT_CAPACITY_CHANGE: &str = "
    INSERT INTO lockhouse_capacity_change
        (semaphore_id, old_capacity, new_capacity, changed_by, note, changed_at)
    VALUES ((SELECT id FROM lockhouse_semaphore WHERE name = ?1), ?2, ?3, ?4, ?5, ?6)";

const UPSERT_SESSION: &str = "
    INSERT INTO lockhouse_owner_session (owner, ttl_ms, expires_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (owner) DO UPDATE SET ttl_ms = excluded.ttl_ms, expires_at = excluded.expires_at";

const DELETE_SESSION: &str = "DELETE FROM lockhouse_owner_session WHERE owner = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    UPDATE_SEMAPHORE,
    UPSERT_SEMAPHORE,
    INSERT_REQUEST,
    INSERT_PERMIT,
    RENEW_REQUEST,
    END_REQUEST,
    INSERT_CAPACITY_CHANGE,
    UPSERT_SESSION,
    DELETE_SESSION,
];

/// Writes `changes`. Semaphores go first, since permits point to them.
pub(super) fn changes(connection: &Connection, changes: &Changes) -> Result<(), Error> {
    for semaphore in &changes.semaphores {
        write_semaphore(connection, semaphore)?;
    }
    for request in &changes.granted {
        insert_request(connection, request)?;
    }
    for renewed in &changes.renewed {
        renew(connection, renewed)?;
    }
    for ended in &changes.ended {
        end(connection, ended)?;
    }
    for change in &changes.capacity_changes {
        insert_capacity_change(connection, change)?;
    }
    for session in &changes.heartbeats {
        write_session(connection, session)?;
    }
    for owner in &changes.goodbyes {
        delete_session(connection, owner)?;
    }
    Ok(())
}

/// Writes `semaphore` as it is here.
pub(super) fn write_semaphore(connection: &Connection, semaphore: &Semaphore) -> Result<(), Error> {
    let cannot = cannot("save a semaphore");
    let row = params![
        semaphore.name.as_str(),
        semaphore.capacity.value(),
        semaphore.in_use,
        integer(semaphore.fence)?,
        us(semaphore.created_at),
        us(semaphore.updated_at),
        semaphore.deleted_at.map(us),
    ];
    if run(connection, UPDATE_SEMAPHORE, row).map_err(&cannot)? == 0 {
        run(connection, UPSERT_SEMAPHORE, row).map_err(&cannot)?;
    }
    Ok(())
}

fn insert_request(connection: &Connection, request: &Request) -> Result<(), Error> {
    let cannot = cannot("save a request");
    let state = if request.is_live() {
        ACQUIRED
    } else {
        RELEASED
    };
    let row = params![
        request.external_id.as_str(),
        request.owner.as_ref().map(|owner| owner.as_str()),
        state,
        request.end_reason().map(|reason| reason.as_str()),
        request.ttl.map(|ttl| integer(ttl.as_ms())).transpose()?,
        request.expires_at.map(us),
        us(request.created_at),
        request.released_at().map(us),
        request.ended_by.as_ref().map(|owner| owner.as_str()),
    ];
    run(connection, INSERT_REQUEST, row).map_err(&cannot)?;
    let id = connection.last_insert_rowid();
    for permit in &request.permits {
        let fence = integer(permit.fence)?;
        let row = params![id, permit.semaphore.as_str(), permit.count.value(), fence];
        run(connection, INSERT_PERMIT, row).map_err(&cannot)?;
    }
    Ok(())
}

fn renew(connection: &Connection, renewed: &Renewed) -> Result<(), Error> {
    let id = renewed.external_id.as_str();
    let row = params![id, integer(renewed.ttl.as_ms())?, us(renewed.expires_at)];
    match run(connection, RENEW_REQUEST, row).map_err(cannot("renew a request"))? {
        1 => Ok(()),
        _ => Err(not_live(id)),
    }
}

fn end(connection: &Connection, ended: &Ended) -> Result<(), Error> {
    let id = ended.external_id.as_str();
    let by = ended.by.as_ref().map(|owner| owner.as_str());
    let row = params![id, ended.reason.as_str(), us(ended.at), by];
    match run(connection, END_REQUEST, row).map_err(cannot("end a request"))? {
        1 => Ok(()),
        _ => Err(not_live(id)),
    }
}

fn insert_capacity_change(connection: &Connection, change: &CapacityChange) -> Result<(), Error> {
    let row = params![
        change.semaphore.as_str(),
        change.old_capacity.value(),
        change.new_capacity.value(),
        change.changed_by.as_ref().map(|owner| owner.as_str()),
        change.note.as_ref().map(|note| note.as_str()),
        us(change.changed_at),
    ];
    run(connection, INSERT_CAPACITY_CHANGE, row).map_err(cannot("save a capacity change"))?;
    Ok(())
}

fn write_session(connection: &Connection, session: &OwnerSession) -> Result<(), Error> {
    let row = params![
        session.owner.as_str(),
        integer(session.ttl.as_ms())?,
        us(session.expires_at),
    ];
    run(connection, UPSERT_SESSION, row).map_err(cannot("save an owner's session"))?;
    Ok(())
}

fn delete_session(connection: &Connection, owner: &Owner) -> Result<(), Error> {
    run(connection, DELETE_SESSION, [owner.as_str()])
        .map_err(cannot("delete an owner's session"))?;
    Ok(())
}

fn run(connection: &Connection, sql: &str, row: impl Params) -> Result<usize, Driver> {
    connection.prepare_cached(sql)?.execute(row)
}

/// Microseconds since the epoch.
fn us(time: Timestamp) -> i64 {
    time.as_microsecond()
}

fn integer(number: u64) -> Result<i64, Error> {
    number.try_into().map_err(|why| {
        Error::new(
            Kind::Rejected,
            format!("SQLite can't keep the number {number}"),
        )
        .caused_by(why)
    })
}

fn not_live(external_id: &str) -> Error {
    let problem = format!("request \"{external_id}\" is not live, though it was loaded so");
    Error::new(Kind::Rejected, problem)
}
