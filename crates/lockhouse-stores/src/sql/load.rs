//! Reads the locked rows: the answers to the first of a batch's two packets.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::store::Error;
use lockhouse_core::{Epoch, ExternalId, Footprint, Grant, Loaded, Request};

use super::dialect::{ByKey, Dialect};
use super::row_ids::RowIds;
use super::rows::{self, TextRow};
use super::script::{Script, list};

/// The loaded rows, and their ids.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) loaded: Loaded,
    pub(crate) ids: RowIds,
}

/// Begins a transaction that locks `footprint` in its order, and reads the clock last. Returns the
/// semaphores, requests and sessions that exist, each kind only if the footprint has any, and then
/// the rows of [`add_unlocked`].
pub(crate) fn script<D: Dialect>(footprint: &Footprint) -> Script {
    let mut script = Script::transaction(D::BEGIN);
    let mut add = |columns: &str, ByKey { table, key }: &ByKey, keys: String| {
        if !keys.is_empty() {
            script.add(format_args!(
                "{} {columns} FROM {table} WHERE {key} IN ({keys}) ORDER BY {key} FOR UPDATE",
                D::SELECT_TO_LOCK
            ));
        }
    };
    let [semaphores, requests, owners] = &D::BY_KEY;
    let names = list(
        footprint
            .semaphores
            .iter()
            .map(|name| D::text(name.as_str())),
    );
    add(rows::SEMAPHORE, semaphores, names);
    let ids = list(footprint.requests.iter().map(|id| D::text(id.as_str())));
    add(rows::REQUEST, requests, ids);
    let names = list(footprint.owners.iter().map(|owner| D::text(owner.as_str())));
    add(rows::SESSION, owners, names);
    add_unlocked::<D>(&mut script, footprint);
    script.add(D::CLOCK);
    script
}

/// The SELECT of `what` from those of `ids` that exist. It locks nothing.
pub(crate) fn known<D: Dialect>(what: &str, ids: &BTreeSet<&ExternalId>) -> String {
    let [_, ByKey { table, key }, _] = &D::BY_KEY;
    let ids = list(ids.iter().map(|id| D::text(id.as_str())));
    format!("SELECT {what} FROM {table} WHERE {key} IN ({ids})")
}

/// Reads the rows of `footprint` that are not locked. It comes after the locks, so it sees every
/// commit that the batch waited for.
fn add_unlocked<D: Dialect>(script: &mut Script, footprint: &Footprint) {
    if footprint.epoch {
        let [ByKey { table, key }, ..] = &D::BY_KEY;
        script.add(format_args!(
            "SELECT {} FROM {table} WHERE {key}={}",
            rows::SEMAPHORE,
            D::text(Epoch::semaphore().as_str())
        ));
    }
    if footprint.templates {
        script.add(format_args!(
            "SELECT {} FROM lockhouse_template t",
            rows::TEMPLATE
        ));
    }
}

/// Reads the answers to [`script`]. The requests have no permits yet.
pub(crate) fn snapshot(
    footprint: &Footprint,
    answers: Vec<Vec<impl TextRow>>,
) -> Result<Snapshot, Error> {
    let mut answers = answers.into_iter().skip(1);
    let mut next = || answers.next().unwrap_or_default();
    let mut ids = RowIds::default();
    let mut semaphores = BTreeMap::new();
    if !footprint.semaphores.is_empty() {
        for row in next() {
            let (id, semaphore) = rows::semaphore(&row)?;
            ids.semaphores.insert(semaphore.name.clone(), id);
            semaphores.insert(semaphore.name.clone(), semaphore);
        }
    }
    let mut requests = Vec::new();
    if !footprint.requests.is_empty() {
        for row in next() {
            requests.push(rows::request(&row)?);
        }
    }
    let mut owners = BTreeMap::new();
    if !footprint.owners.is_empty() {
        for row in next() {
            let session = rows::session(&row)?;
            owners.insert(session.owner.clone(), session);
        }
    }
    if footprint.epoch {
        for row in next() {
            let (_, epoch) = rows::semaphore(&row)?;
            semaphores.entry(epoch.name.clone()).or_insert(epoch);
        }
    }
    let mut templates = Vec::new();
    if footprint.templates {
        for row in next() {
            templates.push(rows::template(&row)?);
        }
    }
    let now = rows::clock(&next())?;
    for (id, request) in &requests {
        ids.requests.insert(request.external_id.clone(), *id);
    }
    let by_external_id = |(_, request): (u64, Request)| (request.external_id.clone(), request);
    let loaded = Loaded {
        now,
        semaphores,
        requests: requests.into_iter().map(by_external_id).collect(),
        owners,
        templates,
    };
    Ok(Snapshot { loaded, ids })
}

/// Gives each of `requests` its [`permits`]. Those of other requests are left out.
pub(crate) fn add_permits(
    requests: &mut [(u64, Request)],
    rows: &[impl TextRow],
    first: usize,
) -> Result<(), Error> {
    let mut permits = permits(rows, first)?;
    for (id, request) in requests {
        request.permits = permits.remove(id).unwrap_or_default();
    }
    Ok(())
}

/// The permits of each request, read from the columns of `rows` that begin at `first`, in byte order
/// of the semaphores' names.
pub(crate) fn permits(
    rows: &[impl TextRow],
    first: usize,
) -> Result<BTreeMap<u64, Vec<Grant>>, Error> {
    let mut permits: BTreeMap<u64, Vec<Grant>> = BTreeMap::new();
    for row in rows {
        let (id, permit) = rows::permit(row, first)?;
        permits.entry(id).or_default().push(permit);
    }
    for permits in permits.values_mut() {
        permits.sort_unstable_by(|a, b| a.semaphore.cmp(&b.semaphore));
    }
    Ok(permits)
}
