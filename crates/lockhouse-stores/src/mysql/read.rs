//! The reads: the rows of each are from one statement, so it sees one moment. They lock nothing.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind, Page};
use lockhouse_core::{CapacityChange, ExternalId, Request, Semaphore, SemaphoreName, Timestamp};
use sqlx::mysql::MySqlRow;

use super::Inner;
use super::load::add_permits;
use super::pool::Lease;
use super::rows;
use super::sql::{Script, Text, list};

/// How long a read may take.
pub(super) const READ: Duration = Duration::from_secs(5);

pub(super) async fn semaphore(
    store: &Inner,
    name: &SemaphoreName,
) -> Result<Option<Semaphore>, Error> {
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s WHERE s.name={} AND s.deleted_at IS NULL",
        rows::SEMAPHORE,
        Text(name.as_str())
    ));
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &script, "reading a semaphore").await?;
    let semaphore = found.first().map(rows::semaphore).transpose()?;
    Ok(semaphore.map(|(_, semaphore)| semaphore))
}

pub(super) async fn named(store: &Inner, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
         WHERE s.name IN ({}) AND s.deleted_at IS NULL",
        rows::SEMAPHORE,
        list(names.iter().map(|name| Text(name.as_str())))
    ));
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &script, "reading semaphores").await?;
    let semaphores = found.iter().map(|row| Ok(rows::semaphore(row)?.1));
    semaphores.collect()
}

pub(super) async fn semaphores(
    store: &Inner,
    page: &Page<SemaphoreName>,
) -> Result<Vec<Semaphore>, Error> {
    let after = page.after.as_ref().map(SemaphoreName::as_str);
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
         WHERE s.deleted_at IS NULL {} ORDER BY s.name LIMIT {}",
        rows::SEMAPHORE,
        beyond("s.name", after),
        page.limit
    ));
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &script, "listing semaphores").await?;
    let semaphores = found.iter().map(|row| Ok(rows::semaphore(row)?.1));
    semaphores.collect()
}

pub(super) async fn request(
    store: &Inner,
    external_id: &ExternalId,
) -> Result<Option<Request>, Error> {
    let chosen = format!(
        "SELECT r.* FROM lockhouse_permit_request r WHERE r.external_id={}",
        Text(external_id.as_str())
    );
    let mut lease = store.pool.lend(READ).await?;
    let mut requests = requests(&mut lease, &chosen, "reading a request").await?;
    Ok(requests.pop())
}

pub(super) async fn holders(
    store: &Inner,
    on: Option<&SemaphoreName>,
    page: &Page<ExternalId>,
) -> Result<Vec<Request>, Error> {
    let after = beyond("r.external_id", page.after.as_ref().map(ExternalId::as_str));
    let limit = page.limit;
    let chosen = match on {
        Some(name) => format!(
            "SELECT r.* FROM lockhouse_semaphore o \
             STRAIGHT_JOIN lockhouse_permit h FORCE INDEX (held) \
             ON h.semaphore_id=o.id AND h.state='ACQUIRED' \
             STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) \
             ON r.id=h.permit_request_id \
             WHERE o.name={} {after} ORDER BY r.external_id LIMIT {limit}",
            Text(name.as_str())
        ),
        None => format!(
            "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (live) \
             WHERE r.state='ACQUIRED' {after} ORDER BY r.external_id LIMIT {limit}"
        ),
    };
    let mut lease = store.pool.lend(READ).await?;
    requests(&mut lease, &chosen, "listing holders").await
}

pub(super) async fn history(
    store: &Inner,
    name: &SemaphoreName,
    limit: u32,
) -> Result<Vec<CapacityChange>, Error> {
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s STRAIGHT_JOIN lockhouse_capacity_change c \
         FORCE INDEX (history) ON c.semaphore_id=s.id \
         WHERE s.name={} ORDER BY c.changed_at DESC,c.id DESC LIMIT {limit}",
        rows::CAPACITY_CHANGE,
        Text(name.as_str())
    ));
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &script, "reading a history").await?;
    let changes = found.iter().map(|row| rows::capacity_change(row, name));
    changes.collect()
}

/// The requests that the SELECT `chosen` chooses, with their permits, in byte order of their ids.
pub(super) async fn requests(
    lease: &mut Lease,
    chosen: &str,
    context: &str,
) -> Result<Vec<Request>, Error> {
    let found = select(lease, &with_permits(chosen), context).await?;
    let mut requests: Vec<(u64, Request)> = Vec::new();
    for row in &found {
        let (id, request) = rows::request(row)?;
        if requests.last().is_none_or(|(last, _)| *last != id) {
            requests.push((id, request));
        }
    }
    add_permits(&mut requests, &found, rows::REQUEST_COLUMNS)?;
    Ok(requests.into_iter().map(|(_, request)| request).collect())
}

pub(super) fn with_permits(chosen: &str) -> Script {
    Script::of(format_args!(
        "SELECT {},{} FROM ({chosen}) r \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.permit_request_id=r.id \
         STRAIGHT_JOIN lockhouse_semaphore s FORCE INDEX (PRIMARY) ON s.id=p.semaphore_id \
         ORDER BY r.external_id",
        rows::REQUEST,
        rows::PERMIT
    ))
}

/// The store's clock.
pub(super) async fn clock(lease: &mut Lease, context: &str) -> Result<Timestamp, Error> {
    let found = select(lease, &Script::of("SELECT SYSDATE(6)"), context).await?;
    match found.as_slice() {
        [row] => rows::clock(row),
        _ => Err(Error::new(Kind::Rejected, "the server told no time")),
    }
}

pub(super) async fn select(
    lease: &mut Lease,
    script: &Script,
    context: &str,
) -> Result<Vec<MySqlRow>, Error> {
    let mut answers = lease.run(script, context).await?;
    Ok(answers.pop().unwrap_or_default())
}

fn beyond(column: &str, after: Option<&str>) -> String {
    match after {
        Some(after) => format!("AND {column}>{}", Text(after)),
        None => String::new(),
    }
}
