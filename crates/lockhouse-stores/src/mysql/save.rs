//! Saves what was decided: the second of a batch's two packets.

use std::collections::BTreeMap;
use std::fmt::Display;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    CapacityChange, Changes, EndReason, Ended, ExternalId, Owner, OwnerSession, Renewed, Request,
    Semaphore, SemaphoreName, State, Timestamp, Ttl,
};

use super::ids::Ids;
use super::load::RowIds;
use super::sql::{Maybe, Script, Text, Time, list};

/// Writes `changes` to the rows that are locked, and commits.
pub(super) fn script(
    changes: &Changes,
    rows: &RowIds,
    ids: &Ids,
    now: Timestamp,
) -> Result<Script, Error> {
    let mut script = Script::new();
    insert_granted(&mut script, &changes.granted, rows, ids, now)?;
    write_semaphores(&mut script, &changes.semaphores, rows)?;
    push_expiry(&mut script, &changes.renewed, rows)?;
    end(&mut script, &changes.ended, rows)?;
    insert_capacity_changes(&mut script, &changes.capacity_changes, rows)?;
    write_sessions(&mut script, &changes.heartbeats);
    delete_sessions(&mut script, &changes.goodbyes);
    script.commit();
    Ok(script)
}

fn insert_granted(
    script: &mut Script,
    granted: &[Request],
    rows: &RowIds,
    ids: &Ids,
    now: Timestamp,
) -> Result<(), Error> {
    if granted.is_empty() {
        return Ok(());
    }
    let mut requests = Vec::with_capacity(granted.len());
    let mut permits = Vec::with_capacity(granted.len());
    for (request, id) in granted.iter().zip(ids.take(granted.len(), now)) {
        requests.push(request_values(request, id));
        for permit in &request.permits {
            permits.push(format!(
                "({id},{},{},{},'{}')",
                rows.semaphore(&permit.semaphore)?,
                permit.count,
                permit.fence,
                state(request.state)
            ));
        }
    }
    script.add(format_args!(
        "INSERT INTO lockhouse_permit_request (id,external_id,owner,state,end_reason,ttl_ms,\
         expires_at,created_at,released_at,ended_by) VALUES {}",
        list(requests)
    ));
    script.add(format_args!(
        "INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,`count`,fence,state) \
         VALUES {}",
        list(permits)
    ));
    Ok(())
}

fn request_values(request: &Request, id: u64) -> String {
    format!(
        "({id},{},{},'{}',{},{},{},{},{},{})",
        Text(request.external_id.as_str()),
        maybe_owner(request.owner.as_ref()),
        state(request.state),
        Maybe(request.end_reason().map(reason)),
        Maybe(request.ttl.map(Ttl::as_ms)),
        Maybe(request.expires_at.map(Time)),
        Time(request.created_at),
        Maybe(request.released_at().map(Time)),
        maybe_owner(request.ended_by.as_ref()),
    )
}

/// All in one statement. The rows are there, and are found by their primary key, so every one of
/// them is an update and none takes a lock that is not held already.
fn write_semaphores(
    script: &mut Script,
    semaphores: &[Semaphore],
    rows: &RowIds,
) -> Result<(), Error> {
    if semaphores.is_empty() {
        return Ok(());
    }
    let values = semaphores.iter().map(|semaphore| {
        Ok(format!(
            "({},{},{},{},{},{},{},{})",
            rows.semaphore(&semaphore.name)?,
            Text(semaphore.name.as_str()),
            semaphore.capacity,
            semaphore.in_use,
            semaphore.fence,
            Time(semaphore.created_at),
            Time(semaphore.updated_at),
            Maybe(semaphore.deleted_at.map(Time)),
        ))
    });
    let values = values.collect::<Result<Vec<_>, Error>>()?;
    script.add(format_args!(
        "INSERT INTO lockhouse_semaphore \
         (id,name,capacity,in_use,fence,created_at,updated_at,deleted_at) VALUES {} \
         ON DUPLICATE KEY UPDATE capacity=VALUES(capacity),in_use=VALUES(in_use),\
         fence=VALUES(fence),created_at=VALUES(created_at),updated_at=VALUES(updated_at),\
         deleted_at=VALUES(deleted_at)",
        list(values)
    ));
    Ok(())
}

fn push_expiry(script: &mut Script, renewed: &[Renewed], rows: &RowIds) -> Result<(), Error> {
    let mut alike: BTreeMap<(Ttl, Timestamp), Vec<u64>> = BTreeMap::new();
    for renewed in renewed {
        let id = rows.request(&renewed.external_id)?;
        alike
            .entry((renewed.ttl, renewed.expires_at))
            .or_default()
            .push(id);
    }
    for ((ttl, expires_at), ids) in alike {
        script.add(format_args!(
            "UPDATE lockhouse_permit_request FORCE INDEX (PRIMARY) \
             SET ttl_ms={},expires_at={} WHERE id IN ({})",
            ttl.as_ms(),
            Time(expires_at),
            list(ids)
        ));
    }
    Ok(())
}

fn end(script: &mut Script, ended: &[Ended], rows: &RowIds) -> Result<(), Error> {
    let mut alike: BTreeMap<(&str, Timestamp, Option<&Owner>), Vec<u64>> = BTreeMap::new();
    for ended in ended {
        let id = rows.request(&ended.external_id)?;
        alike
            .entry((ended.reason.as_str(), ended.at, ended.by.as_ref()))
            .or_default()
            .push(id);
    }
    for ((reason, at, by), ids) in alike {
        let ids = list(ids);
        script.add(format_args!(
            "UPDATE lockhouse_permit_request FORCE INDEX (PRIMARY) \
             SET state='RELEASED',end_reason='{reason}',released_at={},ended_by={} WHERE id IN ({ids})",
            Time(at),
            maybe_owner(by)
        ));
        script.add(format_args!(
            "UPDATE lockhouse_permit FORCE INDEX (PRIMARY) \
             SET state='RELEASED' WHERE permit_request_id IN ({ids})"
        ));
    }
    Ok(())
}

fn insert_capacity_changes(
    script: &mut Script,
    changes: &[CapacityChange],
    rows: &RowIds,
) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let values = changes.iter().map(|change| {
        Ok(format!(
            "({},{},{},{},{},{})",
            rows.semaphore(&change.semaphore)?,
            change.old_capacity,
            change.new_capacity,
            maybe_owner(change.changed_by.as_ref()),
            Maybe(change.note.as_ref().map(|note| Text(note.as_str()))),
            Time(change.changed_at),
        ))
    });
    let values = values.collect::<Result<Vec<_>, Error>>()?;
    script.add(format_args!(
        "INSERT INTO lockhouse_capacity_change \
         (semaphore_id,old_capacity,new_capacity,changed_by,note,changed_at) VALUES {}",
        list(values)
    ));
    Ok(())
}

/// All in one statement, in the order of their key. A first heartbeat finds no row to lock, so
/// whoever comes second waits here, and is the one that counts.
fn write_sessions(script: &mut Script, heartbeats: &[OwnerSession]) {
    if heartbeats.is_empty() {
        return;
    }
    let values = heartbeats.iter().map(|session| {
        format!(
            "({},{},{})",
            Text(session.owner.as_str()),
            session.ttl.as_ms(),
            Time(session.expires_at)
        )
    });
    script.add(format_args!(
        "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES {} \
         ON DUPLICATE KEY UPDATE ttl_ms=VALUES(ttl_ms),expires_at=VALUES(expires_at)",
        list(values)
    ));
}

/// One by one: a DELETE can't be told an index, and where the table is small, one of several rows
/// scans it, and waits for the rows of others.
fn delete_sessions(script: &mut Script, goodbyes: &[Owner]) {
    for owner in goodbyes {
        script.add(format_args!(
            "DELETE FROM lockhouse_owner_session WHERE owner={}",
            Text(owner.as_str())
        ));
    }
}

impl RowIds {
    fn semaphore(&self, name: &SemaphoreName) -> Result<u64, Error> {
        let id = self.semaphores.get(name);
        id.copied().ok_or_else(|| not_loaded("semaphore", name))
    }

    fn request(&self, external_id: &ExternalId) -> Result<u64, Error> {
        let id = self.requests.get(external_id);
        id.copied()
            .ok_or_else(|| not_loaded("request", external_id))
    }
}

fn not_loaded(what: &str, name: impl Display) -> Error {
    Error::new(
        Kind::Rejected,
        format!("{what} \"{name}\" changed though it was not loaded"),
    )
}

const fn state(state: State) -> &'static str {
    match state {
        State::Acquired => "ACQUIRED",
        State::Released { .. } => "RELEASED",
    }
}

fn maybe_owner(owner: Option<&Owner>) -> Maybe<Text<'_>> {
    Maybe(owner.map(|owner| Text(owner.as_str())))
}

fn reason(reason: EndReason) -> String {
    format!("'{reason}'")
}
