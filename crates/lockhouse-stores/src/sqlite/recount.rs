//! Counts the rows anew, and mends what is counted wrongly. The only statements that read whole
//! tables, history and all.
//!
//! A permit is live when its request is.

use lockhouse_core::store::Error;
use lockhouse_core::{Recount, Semaphore, SemaphoreName};
use rusqlite::Connection;

use super::error::cannot;
use super::{load, read, rows, save};

const RECOUNT: &str = "
    SELECT name, capacity, in_use, fence, created_at, updated_at, deleted_at, line,
        template, is_resized, used_at,
        coalesce(live, 0) AS live, coalesce(last_fence, 0) AS last_fence,
        coalesce(repeated_fences, 0) AS repeated_fences
    FROM lockhouse_semaphore AS semaphore
    LEFT JOIN (
        SELECT permit.semaphore_id,
            sum(permit.count) FILTER (WHERE request.state = 'ACQUIRED') AS live,
            max(permit.fence) AS last_fence,
            count(*) - count(DISTINCT permit.fence) AS repeated_fences
        FROM lockhouse_permit AS permit
        LEFT JOIN lockhouse_permit_request AS request ON request.id = permit.permit_request_id
        GROUP BY permit.semaphore_id
    ) AS tally ON tally.semaphore_id = semaphore.id
    ORDER BY name";

/// `+`: sort the few that are found, and read both tables in the order in which they lie.
const LIST_TORN: &str = "
    SELECT external_id FROM lockhouse_permit_request AS request
    WHERE (state = 'RELEASED') <> (end_reason IS NOT NULL)
        OR (state = 'RELEASED') <> (released_at IS NOT NULL)
        OR (state = 'ACQUIRED' AND ended_by IS NOT NULL)
        OR (only_semaphore_id <> 0 AND EXISTS (
            SELECT 1 FROM lockhouse_permit AS permit
            WHERE permit.permit_request_id = request.id
                AND permit.semaphore_id <> request.only_semaphore_id))
        OR NOT EXISTS (
            SELECT 1 FROM lockhouse_permit AS permit
            WHERE permit.permit_request_id = request.id)
    ORDER BY +external_id LIMIT 1000";

const RECOUNT_ONE: &str = "
    SELECT coalesce(sum(permit.count) FILTER (WHERE request.state = 'ACQUIRED'), 0) AS live,
        coalesce(max(permit.fence), 0) AS last_fence
    FROM lockhouse_permit AS permit
    LEFT JOIN lockhouse_permit_request AS request ON request.id = permit.permit_request_id
    WHERE permit.semaphore_id = (SELECT id FROM lockhouse_semaphore WHERE name = ?1)";

/// What all the rows of one snapshot come to.
pub(super) fn recount(snapshot: &Connection) -> Result<Recount, Error> {
    Ok(Recount {
        semaphores: read::list(snapshot, RECOUNT, (), rows::recounted)?,
        torn: read::list(snapshot, LIST_TORN, (), rows::external_id)?,
    })
}

/// Sets the counter and the fence of `name` to what its permits say; what it was, if it was off.
pub(super) fn repair(
    connection: &Connection,
    name: &SemaphoreName,
) -> Result<Option<Semaphore>, Error> {
    let Some(was) = load::semaphore(connection, name)? else {
        return Ok(None);
    };
    let cannot = cannot("recount a semaphore");
    let (live, last_fence): (i64, i64) = connection
        .prepare_cached(RECOUNT_ONE)
        .and_then(|mut select| {
            select.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        })
        .map_err(cannot)?;
    let is = Semaphore {
        in_use: u32::try_from(live).unwrap_or(u32::MAX),
        fence: was.fence.max(u64::try_from(last_fence).unwrap_or(0)),
        ..was.clone()
    };
    if is == was {
        return Ok(None);
    }
    save::write_semaphore(connection, &is)?;
    Ok(Some(was))
}
