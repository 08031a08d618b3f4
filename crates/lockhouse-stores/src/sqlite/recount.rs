//! Verification and repair. Only these statements read whole tables, including the history.
//!
//! A permit is live when its request is.

use std::collections::BTreeMap;

use lockhouse_core::store::Error;
use lockhouse_core::{HeldSlots, Recount, Recounted, SemaphoreName, SemaphoreRow};
use rusqlite::Connection;

use super::error::cannot;
use super::{load, read, rows, save};

const RECOUNT: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at, slots,
        coalesce(live, 0) AS live, coalesce(last_fence, 0) AS last_fence,
        coalesce(repeated_fences, 0) AS repeated_fences, coalesce(misfiled, 0) AS misfiled
    FROM lockhouse_semaphore AS semaphore
    LEFT JOIN (
        SELECT permit.semaphore_id,
            sum(permit.count) FILTER (WHERE request.state = 'ACQUIRED') AS live,
            max(permit.fence) AS last_fence,
            count(*) - count(DISTINCT permit.fence) AS repeated_fences,
            count(*) FILTER (WHERE request.state = 'ACQUIRED'
                AND request.only_semaphore_id NOT IN (0, permit.semaphore_id)) AS misfiled
        FROM lockhouse_permit AS permit
        LEFT JOIN lockhouse_permit_request AS request ON request.id = permit.permit_request_id
        GROUP BY permit.semaphore_id
    ) AS tally ON tally.semaphore_id = semaphore.id
    ORDER BY name";

/// The `+` makes SQLite read both tables in their own order, and sort the few rows that it finds.
const LIST_TORN: &str = "
    SELECT external_id FROM lockhouse_permit_request AS request
    WHERE (state = 'RELEASED') <> (end_reason IS NOT NULL)
        OR (state = 'RELEASED') <> (released_at IS NOT NULL)
        OR (state = 'ACQUIRED' AND ended_by IS NOT NULL)
        OR NOT EXISTS (
            SELECT 1 FROM lockhouse_permit AS permit
            WHERE permit.permit_request_id = request.id)
    ORDER BY +external_id LIMIT 1000";

const LIVE_SLOTS: &str = "
    SELECT semaphore.name, permit.slots
    FROM lockhouse_permit AS permit
    JOIN lockhouse_permit_request AS request ON request.id = permit.permit_request_id
    JOIN lockhouse_semaphore AS semaphore ON semaphore.id = permit.semaphore_id
    WHERE permit.slots IS NOT NULL AND request.state = 'ACQUIRED'";

const RECOUNT_ONE: &str = "
    SELECT coalesce(sum(permit.count) FILTER (WHERE request.state = 'ACQUIRED'), 0) AS live,
        coalesce(max(permit.fence), 0) AS last_fence,
        count(*) FILTER (WHERE request.state = 'ACQUIRED'
            AND request.only_semaphore_id NOT IN (0, permit.semaphore_id)) AS misfiled
    FROM lockhouse_permit AS permit
    LEFT JOIN lockhouse_permit_request AS request ON request.id = permit.permit_request_id
    WHERE permit.semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?1)";

/// Files requests as if they held several semaphores, so that a refusal on any of those finds them.
const FILE: &str = "
    UPDATE lockhouse_permit_request SET only_semaphore_id = 0
    WHERE state = 'ACQUIRED' AND EXISTS (
        SELECT 1 FROM lockhouse_permit AS permit
        JOIN lockhouse_semaphore AS semaphore ON semaphore.id = permit.semaphore_id
        WHERE permit.permit_request_id = lockhouse_permit_request.id AND semaphore.name = ?1
            AND lockhouse_permit_request.only_semaphore_id NOT IN (0, semaphore.id))";

/// The totals of all rows of one snapshot.
pub(super) fn recount(snapshot: &Connection) -> Result<Recount, Error> {
    let mut semaphores: Vec<Recounted> = read::list(snapshot, RECOUNT, (), rows::recounted)?;
    let mut slots = live_slots(snapshot)?;
    for counted in &mut semaphores {
        let held = slots.remove(&counted.semaphore.name);
        counted.slots = held.unwrap_or_default();
    }
    Ok(Recount {
        semaphores,
        torn: read::list(snapshot, LIST_TORN, (), rows::external_id)?,
    })
}

/// Corrects the counter and the fence of `name` from its permits, and files its requests. Returns
/// the semaphore as it was, if something was wrong.
pub(super) fn repair(
    connection: &Connection,
    name: &SemaphoreName,
) -> Result<Option<SemaphoreRow>, Error> {
    let Some(was) = load::semaphore(connection, name)? else {
        return Ok(None);
    };
    let cannot = cannot("recount a semaphore");
    let (live, last_fence, misfiled): (i64, i64, i64) = connection
        .prepare_cached(RECOUNT_ONE)
        .and_then(|mut select| {
            select.query_row([name.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
        })
        .map_err(&cannot)?;
    if misfiled > 0 {
        connection.execute(FILE, [name.as_str()]).map_err(&cannot)?;
    }
    let slots = match was.is_slotted() {
        true => {
            let held = live_slots(connection)?.remove(name);
            Some(held.unwrap_or_default().held)
        }
        false => None,
    };
    let is = SemaphoreRow {
        in_use: u32::try_from(live).unwrap_or(u32::MAX),
        fence: was.fence.max(u64::try_from(last_fence).unwrap_or(0)),
        slots,
        ..was.clone()
    };
    if is == was && misfiled == 0 {
        return Ok(None);
    }
    save::write_semaphore(connection, &is)?;
    Ok(Some(was))
}

/// The slots of all live permits, by the names of their semaphores.
fn live_slots(connection: &Connection) -> Result<BTreeMap<SemaphoreName, HeldSlots>, Error> {
    let mut held: BTreeMap<SemaphoreName, HeldSlots> = BTreeMap::new();
    for (name, slots) in read::list(connection, LIVE_SLOTS, (), rows::held_slots)? {
        held.entry(name).or_default().add(&slots);
    }
    Ok(held)
}
