//! Saves the changes: the second of a batch's two packets.

use lockhouse_core::store::Error;
use lockhouse_core::{Changes, EndReason, Owner, Request, SemaphoreRow, Slots, Ttl};

use super::PostgresServer;
use super::columns::InsertColumns;
use super::notifier;
use super::sql::{Text, Time};
use crate::sql::{RowIds, Script, list, values};

/// `script`, and after it what writes `changes` to the locked rows and commits.
pub(super) fn script(
    mut script: Script,
    changes: &Changes,
    rows: &RowIds,
) -> Result<Script, Error> {
    if !changes.granted.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_permit_request {}",
            requests(&changes.granted, rows)?
        ));
        script.add(format_args!(
            "INSERT INTO lockhouse_permit {}",
            permits(&changes.granted, rows)?
        ));
    }
    // All in one statement. The rows exist, so each is an update.
    if !changes.semaphores.is_empty() {
        script.add(format_args!(
            "INSERT INTO lockhouse_semaphore {} \
             ON CONFLICT (id) DO UPDATE SET capacity=excluded.capacity,in_use=excluded.in_use,\
             fence=excluded.fence,created_at=excluded.created_at,updated_at=excluded.updated_at,\
             deleted_at=excluded.deleted_at,line=excluded.line,\
             template=excluded.template,is_resized=excluded.is_resized,used_at=excluded.used_at,\
             slots=excluded.slots",
            semaphores(&changes.semaphores, rows)?
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

fn requests(granted: &[Request], rows: &RowIds) -> Result<InsertColumns, Error> {
    let all = || granted.iter();
    let ids = all().map(|request| rows.request(&request.external_id));
    let ids: Vec<_> = ids.collect::<Result<_, Error>>()?;
    let only = all().map(|request| values::only_semaphore(request, rows));
    let only: Vec<_> = only.collect::<Result<_, Error>>()?;
    let mut columns = InsertColumns::default();
    columns.add("id", ids.into_iter().map(Some));
    columns.add(
        "external_id",
        all().map(|request| Some(request.external_id.as_str())),
    );
    columns.add(
        "owner",
        all().map(|request| request.owner.as_ref().map(Owner::as_str)),
    );
    columns.add(
        "state",
        all().map(|request| Some(values::state(request.state))),
    );
    columns.add(
        "end_reason",
        all().map(|request| request.end_reason().map(EndReason::as_str)),
    );
    columns.add("ttl_ms", all().map(|request| request.ttl.map(Ttl::as_ms)));
    columns.add("expires_at", all().map(|request| request.expires_at));
    columns.add("created_at", all().map(|request| Some(request.created_at)));
    columns.add("released_at", all().map(Request::released_at));
    columns.add(
        "ended_by",
        all().map(|request| request.ended_by.as_ref().map(Owner::as_str)),
    );
    columns.add("only_semaphore_id", only.into_iter().map(Some));
    Ok(columns)
}

fn permits(granted: &[Request], rows: &RowIds) -> Result<InsertColumns, Error> {
    let permits = || granted.iter().flat_map(|request| &request.permits);
    let mut ids = Vec::new();
    for request in granted {
        let id = rows.request(&request.external_id)?;
        ids.extend(request.permits.iter().map(|_| Some(id)));
    }
    let semaphores = permits().map(|permit| rows.semaphore(&permit.semaphore));
    let semaphores: Vec<_> = semaphores.collect::<Result<_, Error>>()?;
    let slots = permits().map(|permit| permit.slots.as_ref().map(Slots::to_string));
    let slots: Vec<_> = slots.collect();
    let mut columns = InsertColumns::default();
    columns.add("permit_request_id", ids);
    columns.add("semaphore_id", semaphores.into_iter().map(Some));
    columns.add(
        "count",
        permits().map(|permit| Some(u64::from(permit.count.value()))),
    );
    columns.add("fence", permits().map(|permit| Some(permit.fence)));
    columns.add("slots", slots.iter().map(Option::as_deref));
    Ok(columns)
}

fn semaphores(semaphores: &[SemaphoreRow], rows: &RowIds) -> Result<InsertColumns, Error> {
    let all = || semaphores.iter();
    let ids = all().map(|semaphore| rows.semaphore(&semaphore.name));
    let ids: Vec<_> = ids.collect::<Result<_, Error>>()?;
    let origins = || all().map(|semaphore| semaphore.origin.as_ref());
    let lines: Vec<_> = all().map(|semaphore| semaphore.line.to_string()).collect();
    let slots = all().map(|semaphore| semaphore.slots.as_ref().map(Slots::to_string));
    let slots: Vec<_> = slots.collect();
    let mut columns = InsertColumns::default();
    columns.add("id", ids.into_iter().map(Some));
    columns.add("name", all().map(|semaphore| Some(semaphore.name.as_str())));
    columns.add(
        "capacity",
        all().map(|semaphore| Some(u64::from(semaphore.capacity.value()))),
    );
    columns.add(
        "in_use",
        all().map(|semaphore| Some(u64::from(semaphore.in_use))),
    );
    columns.add("fence", all().map(|semaphore| Some(semaphore.fence)));
    columns.add(
        "created_at",
        all().map(|semaphore| Some(semaphore.created_at)),
    );
    columns.add(
        "updated_at",
        all().map(|semaphore| Some(semaphore.updated_at)),
    );
    columns.add("deleted_at", all().map(|semaphore| semaphore.deleted_at));
    columns.add("line", lines.iter().map(|line| Some(line.as_str())));
    columns.add(
        "template",
        origins().map(|origin| origin.map(|origin| origin.template.as_str())),
    );
    columns.add(
        "is_resized",
        origins().map(|origin| Some(u64::from(origin.is_some_and(|o| o.is_resized)))),
    );
    columns.add(
        "used_at",
        origins().map(|origin| origin.map(|origin| origin.used_at)),
    );
    columns.add("slots", slots.iter().map(Option::as_deref));
    Ok(columns)
}
