//! Locks and loads a footprint: the first of a batch's two packets.

use std::collections::BTreeMap;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{ExternalId, Footprint, Loaded, Request, SemaphoreName};
use sqlx::mysql::MySqlRow;

use super::rows;
use super::sql::{Script, Text, list};

/// What was loaded, and the ids of its rows.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) loaded: Loaded,
    pub(super) ids: RowIds,
}

/// The ids of the rows that were loaded.
#[derive(Debug, Default)]
pub(super) struct RowIds {
    pub(super) semaphores: BTreeMap<SemaphoreName, u64>,
    pub(super) requests: BTreeMap<ExternalId, u64>,
}

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last.
///
/// The indexes are forced: a scan of a small table, which the server may think cheaper, would lock
/// rows that are not asked for, and in another order. With them the rows are locked in the order
/// of the index, which is byte order. READ COMMITTED locks no gaps, so what is missing locks
/// nothing.
///
/// Permits are not locked: they change only with their request. `r.state` is selected with them
/// for the plan's sake: what the index alone can answer, the server may answer by reading all of it.
pub(super) fn script(footprint: &Footprint, locks: bool) -> Script {
    let lock = if locks { "FOR UPDATE" } else { "" };
    let mut script = Script::transaction();
    if !footprint.semaphores.is_empty() {
        let names = list(footprint.semaphores.iter().map(|name| Text(name.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
             WHERE s.name IN ({names}) ORDER BY s.name {lock}",
            rows::SEMAPHORE
        ));
    }
    if !footprint.requests.is_empty() {
        let external_ids = list(footprint.requests.iter().map(|id| Text(id.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_permit_request r FORCE INDEX (external_id) \
             WHERE r.external_id IN ({external_ids}) ORDER BY r.external_id {lock}",
            rows::REQUEST
        ));
        script.add(format_args!(
            "SELECT {},r.state FROM lockhouse_permit_request r FORCE INDEX (external_id) \
             STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.permit_request_id=r.id \
             STRAIGHT_JOIN lockhouse_semaphore s FORCE INDEX (PRIMARY) ON s.id=p.semaphore_id \
             WHERE r.external_id IN ({external_ids})",
            rows::PERMIT
        ));
    }
    if !footprint.owners.is_empty() {
        let owners = list(footprint.owners.iter().map(|owner| Text(owner.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
             WHERE w.owner IN ({owners}) ORDER BY w.owner {lock}",
            rows::SESSION
        ));
    }
    script.add("SELECT SYSDATE(6)");
    script
}

/// Reads the answers to [`script`].
pub(super) fn snapshot(
    footprint: &Footprint,
    answers: Vec<Vec<MySqlRow>>,
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
        add_permits(&mut requests, &next(), 0)?;
    }
    let mut owners = BTreeMap::new();
    if !footprint.owners.is_empty() {
        for row in next() {
            let session = rows::session(&row)?;
            owners.insert(session.owner.clone(), session);
        }
    }
    let now = match next().as_slice() {
        [row] => rows::clock(row)?,
        _ => return Err(Error::new(Kind::Rejected, "the server told no time")),
    };
    for (id, request) in &requests {
        ids.requests.insert(request.external_id.clone(), *id);
    }
    let by_external_id = |(_, request): (u64, Request)| (request.external_id.clone(), request);
    let loaded = Loaded {
        now,
        semaphores,
        requests: requests.into_iter().map(by_external_id).collect(),
        owners,
    };
    Ok(Snapshot { loaded, ids })
}

/// Gives each of `requests` its permits, read from the columns of `rows` that begin at `first`, in
/// byte order of the semaphores' names. Permits of other requests are left out.
pub(super) fn add_permits(
    requests: &mut [(u64, Request)],
    rows: &[MySqlRow],
    first: usize,
) -> Result<(), Error> {
    let mut permits: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for row in rows {
        let (id, permit) = rows::permit(row, first)?;
        permits.entry(id).or_default().push(permit);
    }
    for (id, request) in requests {
        let mut permits = permits.remove(id).unwrap_or_default();
        permits.sort_unstable_by(|a, b| a.semaphore.cmp(&b.semaphore));
        request.permits = permits;
    }
    Ok(())
}
