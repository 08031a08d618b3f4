//! Live requests that seem due to end. Each reason to end has an index by time or by owner, so the
//! cost depends on the due requests, not on the held ones. `crate::lapsed` explains how those of
//! one semaphore are found.

use std::time::Duration;

use lockhouse_core::store::{Error, Page, Stale};
use lockhouse_core::{ExternalId, Owner, Request, SemaphoreName, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::error::cannot;
use super::{clock, load, read, rows};
use crate::lapsed::{FEW_SESSIONS, Looks, SEVERAL, bucket, buckets};
use crate::time::before;

/// Expired requests in the buckets of the JSON array ?2.
pub(super) const EXPIRED: &str = "
    SELECT request.external_id FROM json_each(?2) AS bucket
    CROSS JOIN lockhouse_permit_request AS request ON request.due_bucket = bucket.value
    WHERE request.state = 'ACQUIRED' AND request.expires_at <= ?1
    LIMIT ?3";

/// Expired requests in the buckets of ?2 that hold permits of the semaphores whose ids are in the
/// JSON array ?3.
pub(super) const EXPIRED_ON: &str = "
    SELECT request.external_id FROM json_each(?2) AS bucket
    CROSS JOIN lockhouse_permit_request AS request ON request.due_bucket = bucket.value
    WHERE request.state = 'ACQUIRED' AND request.expires_at <= ?1
        AND CASE request.only_semaphore_id
            WHEN 0 THEN EXISTS (
                SELECT 1 FROM lockhouse_permit AS permit
                WHERE permit.permit_request_id = request.id
                    AND permit.semaphore_id IN (SELECT value FROM json_each(?3)))
            ELSE request.only_semaphore_id IN (SELECT value FROM json_each(?3)) END
    LIMIT ?4";

/// Requests of silent owners that have not expired themselves.
pub(super) const SILENT: &str = "
    SELECT request.external_id
    FROM lockhouse_owner_session AS session
    CROSS JOIN lockhouse_permit_request AS request ON request.owner = session.owner
    WHERE session.expires_at <= ?1 AND request.state = 'ACQUIRED'
        AND (request.expires_at IS NULL OR request.expires_at > ?1)
    ORDER BY session.expires_at LIMIT ?2";

/// Requests of silent owners on the semaphores of ?2; the id 0 stands for requests of several semaphores that hold
/// one of ?2. Skips sessions that lapsed by ?3, except those by whose silence a request has ended.
pub(super) const SILENT_ON: &str = "
    SELECT request.external_id
    FROM json_each(?2) AS semaphore
    CROSS JOIN lockhouse_owner_session AS session
    CROSS JOIN lockhouse_permit_request AS request
        ON request.owner = session.owner AND request.only_semaphore_id = semaphore.value
    WHERE (session.expires_at = 0 OR (session.expires_at > ?3 AND session.expires_at <= ?1))
        AND request.state = 'ACQUIRED'
        AND (request.expires_at IS NULL OR request.expires_at > ?1)
        AND (request.only_semaphore_id <> 0 OR EXISTS (
            SELECT 1 FROM lockhouse_permit AS permit
            WHERE permit.permit_request_id = request.id
                AND permit.semaphore_id IN (SELECT value FROM json_each(?2))))
    LIMIT ?4";

/// One row if more than ?2 sessions have lapsed.
pub(super) const MANY_LAPSED_SESSIONS: &str = "
    SELECT expires_at FROM lockhouse_owner_session WHERE expires_at <= ?1 LIMIT 1 OFFSET ?2";

/// When a request was created: of the requests without a TTL that were created after ?1 and not after ?2, oldest first,
/// the one after the first ?3.
pub(super) const LAST_OF_AGE: &str = "
    SELECT created_at FROM lockhouse_permit_request
    WHERE state = 'ACQUIRED' AND due_bucket = 1 AND expires_at IS NULL AND created_at > ?1 AND created_at <= ?2
    ORDER BY created_at LIMIT 1 OFFSET ?3";

/// The requests without a TTL that were created after ?1 and not after ?2, and that no session keeps at ?3.
pub(super) const STALE: &str = "
    SELECT external_id FROM lockhouse_permit_request AS request
    WHERE state = 'ACQUIRED' AND due_bucket = 1 AND expires_at IS NULL AND ttl_ms IS NULL
        AND created_at > ?1 AND created_at <= ?2
        AND NOT EXISTS (
            SELECT 1 FROM lockhouse_owner_session AS session
            WHERE session.owner = request.owner AND session.expires_at > ?3)";

pub(super) const OWNED_BY: &str = "
    SELECT external_id FROM lockhouse_permit_request
    WHERE state = 'ACQUIRED' AND owner = ?1 LIMIT ?2";

const SELECT_SEMAPHORE_ID: &str = "SELECT id FROM lockhouse_semaphore WHERE name = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    EXPIRED,
    EXPIRED_ON,
    SILENT,
    SILENT_ON,
    MANY_LAPSED_SESSIONS,
    LAST_OF_AGE,
    STALE,
    OWNED_BY,
    SELECT_SEMAPHORE_ID,
];

/// First the requests whose TTL has passed, then the requests whose owner has been silent too long.
pub(super) fn lapsed(connection: &Connection, limit: u32) -> Result<Vec<Request>, Error> {
    let now = clock::now()?.as_microsecond();
    let expiring = json(buckets());
    let mut ids = external_ids(connection, EXPIRED, params![now, expiring, limit])?;
    let left = limit.saturating_sub(ids.len() as u32);
    ids.extend(external_ids(connection, SILENT, params![now, left])?);
    requests(connection, &ids)
}

/// The [`lapsed`] requests that hold permits of one of the semaphores `on`.
pub(super) fn lapsed_on(
    connection: &Connection,
    looks: &Looks,
    on: &[SemaphoreName],
    limit: u32,
) -> Result<Vec<Request>, Error> {
    let moment = clock::now()?;
    let now = moment.as_microsecond();
    let semaphores = semaphore_ids(connection, on)?;
    let own = semaphores.iter().map(|id| bucket(*id)).chain([SEVERAL]);
    let on = semaphores.iter().copied().chain([0]);
    let (own, on) = (json(own), json(on));
    let mut ids = external_ids(connection, EXPIRED_ON, params![now, own, on, limit])?;
    let left = limit.saturating_sub(ids.len() as u32);
    let left_out = match are_few_silent(connection, now)? {
        true => None,
        false => looks.left_out(&semaphores, moment),
    };
    let since = left_out.unwrap_or(Timestamp::UNIX_EPOCH).as_microsecond();
    ids.extend(external_ids(
        connection,
        SILENT_ON,
        params![now, on, since, left],
    )?);
    if ids.is_empty() && left_out.is_none() {
        looks.found_nothing(&semaphores, moment);
    }
    requests(connection, &ids)
}

/// Reads requests without a TTL that have been held for `age`.
pub(super) fn stale(
    connection: &Connection,
    age: Duration,
    page: &Page<Timestamp>,
) -> Result<Stale, Error> {
    let Some(last) = page.limit.checked_sub(1) else {
        return Ok(Stale::default());
    };
    let now = clock::now()?;
    let cutoff = before(now, age).as_microsecond();
    let after = page.after.map_or(i64::MIN, Timestamp::as_microsecond);
    let key = params![after, cutoff, last];
    let last = read::list(connection, LAST_OF_AGE, key, rows::moment)?;
    let looked_to = last.first().copied();
    let to = looked_to.map_or(cutoff, Timestamp::as_microsecond);
    let ids = external_ids(connection, STALE, params![after, to, now.as_microsecond()])?;
    Ok(Stale {
        requests: requests(connection, &ids)?,
        looked_to,
    })
}

/// The live requests of `owner`.
pub(super) fn owned_by(
    connection: &Connection,
    owner: &Owner,
    limit: u32,
) -> Result<Vec<Request>, Error> {
    let ids = external_ids(connection, OWNED_BY, params![owner.as_str(), limit])?;
    requests(connection, &ids)
}

fn external_ids(
    connection: &Connection,
    sql: &str,
    key: impl Params,
) -> Result<Vec<ExternalId>, Error> {
    read::list(connection, sql, key, rows::external_id)
}

fn requests(connection: &Connection, ids: &[ExternalId]) -> Result<Vec<Request>, Error> {
    let mut requests = load::Requests::new(connection)?;
    let found = ids.iter().map(|id| requests.find(id));
    let found = found.filter_map(Result::transpose);
    found
        .map(|found| found.map(|(_, request)| request))
        .collect()
}

/// The ids of the semaphores among `names` that exist.
fn semaphore_ids(connection: &Connection, names: &[SemaphoreName]) -> Result<Vec<u64>, Error> {
    let cannot = cannot("look up semaphores");
    let mut select = connection
        .prepare_cached(SELECT_SEMAPHORE_ID)
        .map_err(&cannot)?;
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let found = select.query_row([name.as_str()], |row| row.get::<_, i64>(0));
        ids.extend(found.optional().map_err(&cannot)?.map(i64::unsigned_abs));
    }
    Ok(ids)
}

/// Whether so few sessions have lapsed that a look reads all of them.
fn are_few_silent(connection: &Connection, now: i64) -> Result<bool, Error> {
    let key = params![now, FEW_SESSIONS];
    let many = read::list(connection, MANY_LAPSED_SESSIONS, key, rows::moment)?;
    Ok(many.is_empty())
}

fn json(numbers: impl IntoIterator<Item = u64>) -> String {
    format!("{:?}", numbers.into_iter().collect::<Vec<_>>())
}
