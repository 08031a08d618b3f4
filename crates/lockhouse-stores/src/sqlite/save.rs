//! Writes the changes in few statements. SQLite runs in the process, so they are no round trips,
//! but each takes time to begin and end.

use std::collections::BTreeMap;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    CapacityChange, Changes, Ended, ExternalId, Owner, OwnerSession, Renewed, Request,
    SemaphoreName, SemaphoreRow, Slots, Timestamp,
};
use rusqlite::{Connection, Error as Driver, Params, params};

use super::error::cannot;
use super::insert::{self, Values};
use super::rows::{ACQUIRED, RELEASED};

/// The usual change, which touches no index.
const UPDATE_SEMAPHORE: &str = "
    UPDATE lockhouse_semaphore SET in_use = ?3, fence = ?4, updated_at = ?6, line = ?8, slots = ?12
    WHERE name = ?1 AND capacity = ?2 AND created_at = ?5 AND deleted_at IS ?7
        AND template IS ?9 AND is_resized = ?10 AND used_at IS ?11";

/// For semaphores that are created, resized or deleted, and once a second for the use of a keyed
/// one.
const UPSERT_SEMAPHORE: &str = "
    INSERT INTO lockhouse_semaphore
        (name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at, slots)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (name) DO UPDATE SET
        capacity = excluded.capacity, in_use = excluded.in_use, fence = excluded.fence,
        created_at = excluded.created_at, updated_at = excluded.updated_at,
        deleted_at = excluded.deleted_at, line = excluded.line, template = excluded.template,
        is_resized = excluded.is_resized, used_at = excluded.used_at,
        slots = excluded.slots";

/// OR FAIL: any failure ends the transaction, so SQLite need not be able to undo the statement
/// alone.
const INSERT_REQUEST: &str = "
    INSERT OR FAIL INTO lockhouse_permit_request
        (id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
        ended_by, only_semaphore_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const INSERT_PERMIT: &str = "
    INSERT OR FAIL INTO lockhouse_permit (permit_request_id, semaphore_id, count, fence, slots)
    VALUES (?, ?, ?, ?, ?)";

const SELECT_SEMAPHORE_ID: &str = "SELECT id FROM lockhouse_semaphore WHERE name = ?1";

const RENEW_REQUEST: &str = "
    UPDATE lockhouse_permit_request SET ttl_ms = ?2, expires_at = ?3
    WHERE id = ?1 AND state = 'ACQUIRED'";

const END_REQUEST: &str = "
    UPDATE lockhouse_permit_request
    SET state = 'RELEASED', end_reason = ?2, released_at = ?3, ended_by = ?4
    WHERE id = ?1 AND state = 'ACQUIRED'";

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
    SELECT_SEMAPHORE_ID,
    RENEW_REQUEST,
    END_REQUEST,
    INSERT_CAPACITY_CHANGE,
    UPSERT_SESSION,
    DELETE_SESSION,
];

/// The ids of the rows of the requests that were loaded.
type RequestRowIds = BTreeMap<ExternalId, i64>;

/// Writes `changes` to the loaded rows. Semaphores come first, since permits refer to them.
pub(super) fn changes(
    connection: &Connection,
    changes: &Changes,
    ids: &RequestRowIds,
) -> Result<(), Error> {
    for semaphore in &changes.semaphores {
        write_semaphore(connection, semaphore)?;
    }
    insert_requests(connection, &changes.granted)?;
    renew(connection, &changes.renewed, ids)?;
    end(connection, &changes.ended, ids)?;
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

/// Writes all columns of `semaphore`.
pub(super) fn write_semaphore(
    connection: &Connection,
    semaphore: &SemaphoreRow,
) -> Result<(), Error> {
    let cannot = cannot("save a semaphore");
    let origin = semaphore.origin.as_ref();
    let row = params![
        semaphore.name.as_str(),
        semaphore.capacity.value(),
        semaphore.in_use,
        integer(semaphore.fence)?,
        us(semaphore.created_at),
        us(semaphore.updated_at),
        semaphore.deleted_at.map(us),
        semaphore.line.to_string(),
        origin.map(|origin| origin.template.as_str()),
        origin.is_some_and(|origin| origin.is_resized),
        origin.map(|origin| us(origin.used_at)),
        semaphore.slots.as_ref().map(Slots::to_string),
    ];
    if run(connection, UPDATE_SEMAPHORE, row).map_err(&cannot)? == 0 {
        run(connection, UPSERT_SEMAPHORE, row).map_err(&cannot)?;
    }
    Ok(())
}

/// SQLite chooses the id of the first, larger than any that it ever chose. The others follow it,
/// since no other connection writes meanwhile.
fn insert_requests(connection: &Connection, granted: &[Request]) -> Result<(), Error> {
    let mut semaphores = SemaphoreIds::default();
    let only = granted
        .iter()
        .map(|request| match request.permits.as_slice() {
            [only] => Ok((request, semaphores.find(connection, &only.semaphore)?)),
            _ => Ok((request, 0)),
        });
    let rows = only.collect::<Result<Vec<_>, Error>>()?;
    let Some((first, others)) = rows.split_first() else {
        return Ok(());
    };
    let doing = "save requests";
    insert::rows(
        connection,
        INSERT_REQUEST,
        &[first],
        doing,
        |values, (first, only)| bind_request(values, None, first, *only),
    )?;
    let first_id = connection.last_insert_rowid();
    let mut ids = first_id + 1..;
    insert::rows(
        connection,
        INSERT_REQUEST,
        others,
        doing,
        |values, (request, only)| bind_request(values, ids.next(), request, *only),
    )?;
    insert_permits(connection, &mut semaphores, (first_id..).zip(granted))
}

fn bind_request(
    values: &mut Values<'_, '_>,
    id: Option<i64>,
    request: &Request,
    only_semaphore: i64,
) -> Result<(), Error> {
    let state = if request.is_live() {
        ACQUIRED
    } else {
        RELEASED
    };
    values.bind(params![
        id,
        request.external_id.as_str(),
        request.owner.as_ref().map(|owner| owner.as_str()),
        state,
        request.end_reason().map(|reason| reason.as_str()),
        request.ttl.map(|ttl| integer(ttl.as_ms())).transpose()?,
        request.expires_at.map(us),
        us(request.created_at),
        request.released_at().map(us),
        request.ended_by.as_ref().map(|owner| owner.as_str()),
        only_semaphore,
    ])
}

/// Inserts the permits of `requests`, whose rows have these ids.
fn insert_permits<'a>(
    connection: &Connection,
    semaphores: &mut SemaphoreIds<'a>,
    requests: impl Iterator<Item = (i64, &'a Request)>,
) -> Result<(), Error> {
    let mut rows = Vec::new();
    for (id, request) in requests {
        for permit in &request.permits {
            rows.push((id, semaphores.find(connection, &permit.semaphore)?, permit));
        }
    }
    insert::rows(
        connection,
        INSERT_PERMIT,
        &rows,
        "save permits",
        |values, row| {
            let (request, semaphore, permit) = row;
            let fence = integer(permit.fence)?;
            let slots = permit.slots.as_ref().map(Slots::to_string);
            values.bind(params![
                request,
                semaphore,
                permit.count.value(),
                fence,
                slots
            ])
        },
    )
}

/// The ids of the rows of semaphores, each looked up once.
#[derive(Default)]
struct SemaphoreIds<'a>(BTreeMap<&'a SemaphoreName, i64>);

impl<'a> SemaphoreIds<'a> {
    fn find(&mut self, connection: &Connection, name: &'a SemaphoreName) -> Result<i64, Error> {
        if let Some(id) = self.0.get(name) {
            return Ok(*id);
        }
        let id = connection
            .prepare_cached(SELECT_SEMAPHORE_ID)
            .and_then(|mut select| select.query_row([name.as_str()], |row| row.get(0)))
            .map_err(cannot("look up a semaphore"))?;
        self.0.insert(name, id);
        Ok(id)
    }
}

fn renew(connection: &Connection, renewed: &[Renewed], ids: &RequestRowIds) -> Result<(), Error> {
    let cannot = cannot("renew a request");
    let mut update = connection.prepare_cached(RENEW_REQUEST).map_err(&cannot)?;
    for Renewed {
        external_id,
        ttl,
        expires_at,
    } in renewed
    {
        let row = params![ids.get(external_id), integer(ttl.as_ms())?, us(*expires_at)];
        must_be_live(external_id, update.execute(row).map_err(&cannot)?)?;
    }
    Ok(())
}

fn end(connection: &Connection, ended: &[Ended], ids: &RequestRowIds) -> Result<(), Error> {
    let cannot = cannot("end a request");
    let mut update = connection.prepare_cached(END_REQUEST).map_err(&cannot)?;
    for Ended {
        external_id,
        reason,
        at,
        by,
    } in ended
    {
        let by = by.as_ref().map(|owner| owner.as_str());
        let row = params![ids.get(external_id), reason.as_str(), us(*at), by];
        must_be_live(external_id, update.execute(row).map_err(&cannot)?)?;
    }
    Ok(())
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

pub(super) fn integer(number: u64) -> Result<i64, Error> {
    number.try_into().map_err(|why| {
        Error::new(
            Kind::Rejected,
            format!("SQLite can't keep the number {number}"),
        )
        .caused_by(why)
    })
}

fn must_be_live(external_id: &ExternalId, updated: usize) -> Result<(), Error> {
    if updated == 1 {
        return Ok(());
    }
    let problem = format!("request \"{external_id}\" is not live, though it was loaded so");
    Err(Error::new(Kind::Rejected, problem))
}
