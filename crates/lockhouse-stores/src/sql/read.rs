//! The reads. Each is one statement, so it sees one moment. They lock nothing.

use std::slice;
use std::time::Duration;

use lockhouse_core::store::{Error, Page};
use lockhouse_core::{
    CapacityChange, ExternalId, Owner, Request, SemaphoreName, SemaphoreRow, Timestamp,
};

use super::Inner;
use super::dialect::{ByKey, Dialect, Names};
use super::driver::RowOf;
use super::load::add_permits;
use super::pool::Lease;
use super::rows;
use super::script::{Script, list};

/// How long a read may take.
pub(crate) const READ: Duration = Duration::from_secs(5);

pub(crate) async fn semaphore<D: Dialect>(
    store: &Inner<D>,
    name: &SemaphoreName,
) -> Result<Option<SemaphoreRow>, Error> {
    let found = named(store, slice::from_ref(name)).await?;
    Ok(found.into_iter().next())
}

pub(crate) async fn named<D: Dialect>(
    store: &Inner<D>,
    names: &[SemaphoreName],
) -> Result<Vec<SemaphoreRow>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut lease = store.pool.lend(READ).await?;
    let mut semaphores = Vec::new();
    let mut left = vec![names];
    while let Some(names) = left.pop() {
        let script = find::<D>(names);
        if names.len() > 1 && !lease.takes(&script) {
            let (first, second) = names.split_at(names.len() / 2);
            left.extend([second, first]);
            continue;
        }
        for row in select(&mut lease, &script, "reading semaphores").await? {
            semaphores.push(rows::semaphore(&row)?.1);
        }
    }
    Ok(semaphores)
}

pub(crate) async fn semaphores<D: Dialect>(
    store: &Inner<D>,
    names: &Names,
    page: &Page<SemaphoreName>,
) -> Result<Vec<SemaphoreRow>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let script = page_of::<D>(names, page);
    let found = select(&mut lease, &script, "listing semaphores").await?;
    let semaphores = found.iter().map(|row| Ok(rows::semaphore(row)?.1));
    semaphores.collect()
}

pub(crate) async fn request<D: Dialect>(
    store: &Inner<D>,
    external_id: &ExternalId,
) -> Result<Option<Request>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let script = by_id::<D>(external_id);
    let mut found = requests(&mut lease, &script, "reading a request").await?;
    Ok(found.pop().map(|(_, request)| request))
}

/// The request with its permits.
fn by_id<D: Dialect>(external_id: &ExternalId) -> Script {
    let [_, ByKey { table, key }, _] = &D::BY_KEY;
    let id = D::text(external_id.as_str());
    D::with_permits(&format!("SELECT r.* FROM {table} WHERE {key}={id}"))
}

/// The semaphores among `names`, of which there is at least one, that are not deleted.
pub(crate) fn find<D: Dialect>(names: &[SemaphoreName]) -> Script {
    let [ByKey { table, key }, ..] = &D::BY_KEY;
    Script::of(format_args!(
        "SELECT {} FROM {table} WHERE {key} IN ({}) AND s.deleted_at IS NULL",
        rows::SEMAPHORE,
        list(names.iter().map(|name| D::text(name.as_str())))
    ))
}

/// The semaphores of `page`, of those that `names` selects.
pub(crate) fn page_of<D: Dialect>(names: &Names, page: &Page<SemaphoreName>) -> Script {
    let [ByKey { table, key }, ..] = &D::BY_KEY;
    let after = page.after.as_ref().map(SemaphoreName::as_str);
    let mut which = format!("{key}>{}", D::text(after.unwrap_or_default()));
    if let Names::Existing(prefix) = names {
        which += " AND s.deleted_at IS NULL";
        if let Some(prefix) = prefix {
            which += &format!(" AND {key}>={}", D::text(prefix.as_str()));
            if let Some(end) = prefix.end() {
                which += &format!(" AND {key}<{}", D::text(&end));
            }
        }
    }
    Script::of(format_args!(
        "SELECT {} FROM {table} WHERE {which} ORDER BY {key} LIMIT {}",
        rows::SEMAPHORE,
        page.limit
    ))
}

pub(crate) async fn history<D: Dialect>(
    store: &Inner<D>,
    name: &SemaphoreName,
    limit: u32,
) -> Result<Vec<CapacityChange>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &D::history(name, limit), "reading a history").await?;
    let changes = found.iter().map(|row| rows::capacity_change(row, name));
    changes.collect()
}

pub(crate) async fn owners<D: Dialect>(
    store: &Inner<D>,
    page: &Page<Owner>,
) -> Result<Vec<Owner>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &D::owners(page), "listing owners").await?;
    found.iter().map(rows::owner).collect()
}

/// The requests that `script` selects with their permits, after the ids of their rows.
pub(crate) async fn requests<D: Dialect>(
    lease: &mut Lease<D>,
    script: &Script,
    context: &str,
) -> Result<Vec<(u64, Request)>, Error> {
    let found = select(lease, script, context).await?;
    let mut requests: Vec<(u64, Request)> = Vec::new();
    for row in &found {
        let (id, request) = rows::request(row)?;
        if requests.last().is_none_or(|(last, _)| *last != id) {
            requests.push((id, request));
        }
    }
    add_permits(&mut requests, &found, rows::REQUEST_COLUMNS)?;
    Ok(requests)
}

/// The store's clock.
pub(crate) async fn clock<D: Dialect>(
    lease: &mut Lease<D>,
    context: &str,
) -> Result<Timestamp, Error> {
    let found = select(lease, &Script::of(D::CLOCK), context).await?;
    rows::clock(&found)
}

/// The rows of the last statement of `script`.
pub(crate) async fn select<D: Dialect>(
    lease: &mut Lease<D>,
    script: &Script,
    context: &str,
) -> Result<Vec<RowOf<D>>, Error> {
    let mut answers = lease.run(script, context).await?;
    Ok(answers.pop().unwrap_or_default())
}
