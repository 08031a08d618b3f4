//! Saves the changes: the second of a batch's two packets.

use lockhouse_core::Changes;
use lockhouse_core::store::Error;

use super::PostgresServer;
use super::notifier;
use super::sql::{Text, Time};
use crate::sql::{RowIds, Script, list, values};

/// Writes `changes` to the locked rows, and commits.
pub(super) fn script(changes: &Changes, rows: &RowIds) -> Result<Script, Error> {
    let mut script = Script::new();
    if !changes.granted.is_empty() {
        let (requests, permits) = values::granted::<PostgresServer>(&changes.granted, rows)?;
        script.add(format_args!(
            "INSERT INTO lockhouse_permit_request (id,external_id,owner,state,end_reason,ttl_ms,\
             expires_at,created_at,released_at,ended_by,only_semaphore_id) VALUES {requests}"
        ));
        script.add(format_args!(
            "INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,count,fence,slots) \
             VALUES {permits}"
        ));
    }
    // All in one statement. The rows exist, so each is an update.
    if !changes.semaphores.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_semaphore \
             (id,name,capacity,in_use,fence,created_at,updated_at,deleted_at,line,\
             template,is_resized,used_at,slots) VALUES {} \
             ON CONFLICT (id) DO UPDATE SET capacity=excluded.capacity,in_use=excluded.in_use,\
             fence=excluded.fence,created_at=excluded.created_at,updated_at=excluded.updated_at,\
             deleted_at=excluded.deleted_at,line=excluded.line,\
             template=excluded.template,is_resized=excluded.is_resized,used_at=excluded.used_at,\
             slots=excluded.slots",
            values::semaphores::<PostgresServer>(&changes.semaphores, rows)?
        ));
    }
    for ((ttl, expires_at), ids) in values::renewed(&changes.renewed, rows)? {
        script.add(format_args!(
            "UPDATE lockhouse_permit_request SET ttl_ms={},expires_at={} WHERE id IN ({})",
            ttl.as_ms(),
            Time(expires_at),
            list(ids)
        ));
    }
    for ([reason, at, by], ids) in values::ended::<PostgresServer>(&changes.ended, rows)? {
        script.add(format_args!(
            "UPDATE lockhouse_permit_request \
             SET state='RELEASED',end_reason={reason},released_at={at},ended_by={by} \
             WHERE id IN ({ids})"
        ));
    }
    if !changes.capacity_changes.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_capacity_change \
             (semaphore_id,old_capacity,new_capacity,changed_by,note,changed_at) VALUES {}",
            values::capacity_changes::<PostgresServer>(&changes.capacity_changes, rows)?
        ));
    }
    // All in one statement, in the order of their key. A first heartbeat finds no row to lock, so
    // of two first heartbeats the second waits here, and its values remain. Without the order, two
    // transactions could wait for each other, which the server would notice only after a second.
    if !changes.heartbeats.is_empty() {
        script.add("SET LOCAL lock_timeout='200ms'");
        script.add(format_args!(
            "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES {} \
             ON CONFLICT (owner) DO UPDATE SET ttl_ms=excluded.ttl_ms,\
             expires_at=excluded.expires_at",
            values::sessions::<PostgresServer>(&changes.heartbeats)
        ));
    }
    if !changes.goodbyes.is_empty() {
        let owners = changes.goodbyes.iter().map(|owner| Text(owner.as_str()));
        script.add(format_args!(
            "DELETE FROM lockhouse_owner_session WHERE owner IN ({})",
            list(owners)
        ));
    }
    if let Some(notify) = notifier::notify(&changes.freed) {
        script.add(notify);
    }
    script.commit();
    Ok(script)
}
