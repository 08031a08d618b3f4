//! Saves the changes: the second of a batch's two packets.

use std::fmt::{self, Display};
use std::slice;

use lockhouse_core::store::Error;
use lockhouse_core::{Changes, Key, Owner, Request, SemaphoreRow, Ttl};

use super::MySqlServer;
use super::sql::{BEGIN, Text, Time};
use crate::sql::{Inserts, Maybe, RowIds, Script, list, values};

/// Selects what the last INSERT [noted](Noted) last. A rollback leaves it.
pub(super) const NOTED: &str = "SELECT LAST_INSERT_ID()";

/// A value. The session notes its mark when the server comes to its row: after an error the server
/// does not say which of the rows it was at.
pub(super) struct Noted {
    pub(super) mark: u64,
    pub(super) value: u64,
}

impl Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mark, value } = self;
        match mark == value {
            true => write!(f, "LAST_INSERT_ID({mark})"),
            false => write!(f, "LAST_INSERT_ID({mark})*0+{value}"),
        }
    }
}

/// Inserts `rows`, unless they exist. One by one: the server generates their ids, and with them
/// overwrites what the session [noted](Noted).
pub(super) fn insert_missing(rows: &[SemaphoreRow]) -> Script {
    let mut script = Script::of(BEGIN);
    for row in rows {
        script.insert(
            Inserts::One(Key::Semaphore(row.name.clone())),
            format_args!(
                "INSERT IGNORE INTO lockhouse_semaphore \
                 (name,capacity,in_use,fence,created_at,updated_at,deleted_at) VALUES {}",
                values::new_semaphores::<MySqlServer>(slice::from_ref(row))
            ),
        );
    }
    script.add("COMMIT");
    script
}

/// `script`, and after it what writes `changes` to the locked rows and commits.
pub(super) fn script(
    mut script: Script,
    changes: &Changes,
    rows: &RowIds,
) -> Result<Script, Error> {
    if !changes.granted.is_empty() {
        script.insert(Inserts::Requests, requests(&changes.granted, rows)?);
        script.add(permits(&changes.granted, rows)?);
    }
    // All in one statement. The rows exist and are found by their primary key, so each is an update
    // and takes no new lock.
    if !changes.semaphores.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_semaphore \
             (id,name,capacity,in_use,fence,created_at,updated_at,deleted_at,line,\
             template,is_resized,used_at,slots) VALUES {} \
             ON DUPLICATE KEY UPDATE capacity=VALUES(capacity),in_use=VALUES(in_use),\
             fence=VALUES(fence),created_at=VALUES(created_at),updated_at=VALUES(updated_at),\
             deleted_at=VALUES(deleted_at),line=VALUES(line),\
             template=VALUES(template),is_resized=VALUES(is_resized),used_at=VALUES(used_at),\
             slots=VALUES(slots)",
            semaphores(&changes.semaphores, rows)?
        ));
    }
    for ((ttl, expires_at), ids) in values::renewed(&changes.renewed, rows)? {
        script.add(format_args!(
            "UPDATE lockhouse_permit_request FORCE INDEX (PRIMARY) \
             SET ttl_ms={},expires_at={} WHERE id IN ({})",
            ttl.as_ms(),
            Time(expires_at),
            list(ids)
        ));
    }
    for ([reason, at, by], ids) in values::ended::<MySqlServer>(&changes.ended, rows)? {
        script.add(format_args!(
            "UPDATE lockhouse_permit_request FORCE INDEX (PRIMARY) \
             SET state='RELEASED',end_reason={reason},released_at={at},ended_by={by} \
             WHERE id IN ({ids})"
        ));
    }
    if !changes.capacity_changes.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_capacity_change \
             (semaphore_id,old_capacity,new_capacity,changed_by,note,changed_at) VALUES {}",
            values::capacity_changes::<MySqlServer>(&changes.capacity_changes, rows)?
        ));
    }
    // All in one statement, in the order of their key. A first heartbeat finds no row to lock, so
    // of two first heartbeats the second waits here, and its values remain.
    if !changes.heartbeats.is_empty() {
        script.insert(
            Inserts::Sessions,
            format_args!(
                "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES {} \
                 ON DUPLICATE KEY UPDATE ttl_ms=VALUES(ttl_ms),expires_at=VALUES(expires_at)",
                values::sessions::<MySqlServer>(&changes.heartbeats)
            ),
        );
    }
    delete_sessions(&mut script, &changes.goodbyes);
    script.commit();
    Ok(script)
}

/// Inserts requests. The columns of those that ended in the same batch are left out where there are none.
fn requests(granted: &[Request], rows: &RowIds) -> Result<String, Error> {
    let have_ended = granted.iter().any(|request| !request.is_live());
    let values = granted.iter().map(|request| {
        let id = rows.request(&request.external_id)?;
        let end = match have_ended {
            true => end(request),
            false => String::new(),
        };
        Ok(format!(
            "({},{},{},'{}',{},{},{},{}{end})",
            Noted {
                mark: id,
                value: id
            },
            Text(request.external_id.as_str()),
            values::maybe_owner::<MySqlServer>(request.owner.as_ref()),
            values::state(request.state),
            Maybe(request.ttl.map(Ttl::as_ms)),
            Maybe(request.expires_at.map(Time)),
            Time(request.created_at),
            values::only_semaphore(request, rows)?,
        ))
    });
    let values = list(values.collect::<Result<Vec<_>, Error>>()?);
    let ended = match have_ended {
        true => ",end_reason,released_at,ended_by",
        false => "",
    };
    Ok(format!(
        "INSERT INTO lockhouse_permit_request \
         (id,external_id,owner,state,ttl_ms,expires_at,created_at,only_semaphore_id{ended}) VALUES {values}"
    ))
}

/// `,end_reason,released_at,ended_by`
fn end(request: &Request) -> String {
    format!(
        ",{},{},{}",
        Maybe(request.end_reason().map(|reason| format!("'{reason}'"))),
        Maybe(request.released_at().map(Time)),
        values::maybe_owner::<MySqlServer>(request.ended_by.as_ref()),
    )
}

/// Inserts the permits of requests. The column of the slots is left out where there are none.
fn permits(granted: &[Request], rows: &RowIds) -> Result<String, Error> {
    let permits = || granted.iter().flat_map(|request| &request.permits);
    let are_slotted = permits().any(|permit| permit.slots.is_some());
    let mut values = Vec::new();
    for request in granted {
        let id = rows.request(&request.external_id)?;
        for permit in &request.permits {
            let slots = match are_slotted {
                true => format!(",{}", values::slots(permit.slots.as_ref())),
                false => String::new(),
            };
            values.push(format!(
                "({id},{},{},{}{slots})",
                rows.semaphore(&permit.semaphore)?,
                permit.count,
                permit.fence,
            ));
        }
    }
    let values = list(values);
    let slots = if are_slotted { ",slots" } else { "" };
    Ok(format!(
        "INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,count,fence{slots}) VALUES {values}"
    ))
}

/// `id,name,capacity,in_use,fence,created_at,updated_at,deleted_at,line,template,is_resized,used_at,slots`
fn semaphores(semaphores: &[SemaphoreRow], rows: &RowIds) -> Result<String, Error> {
    let values = semaphores.iter().map(|semaphore| {
        let id = rows.semaphore(&semaphore.name)?;
        // A line is digits, letters and punctuation that need no escape.
        let origin = semaphore.origin.as_ref();
        Ok(format!(
            "({id},{},'{}',{},{},{},{})",
            values::semaphore_columns::<MySqlServer>(semaphore),
            semaphore.line,
            Maybe(origin.map(|origin| Text(origin.template.as_str()))),
            u8::from(origin.is_some_and(|origin| origin.is_resized)),
            Maybe(origin.map(|origin| Time(origin.used_at))),
            values::slots(semaphore.slots.as_ref()),
        ))
    });
    Ok(list(values.collect::<Result<Vec<_>, Error>>()?))
}

/// One by one: a DELETE takes no index hint, and on a small table a DELETE of several rows scans it
/// and waits for locked rows.
fn delete_sessions(script: &mut Script, goodbyes: &[Owner]) {
    for owner in goodbyes {
        script.add(format_args!(
            "DELETE FROM lockhouse_owner_session WHERE owner={}",
            Text(owner.as_str())
        ));
    }
}
