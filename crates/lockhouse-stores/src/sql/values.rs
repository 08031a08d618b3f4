//! Writes changes as literals: rows for VALUES, in the order of the columns that each function
//! names, and ids for IN.

use std::collections::BTreeMap;

use lockhouse_core::store::Error;
use lockhouse_core::{
    CapacityChange, Ended, Owner, OwnerSession, Renewed, Request, SemaphoreRow, Slots, State,
    Timestamp, Ttl,
};

use super::dialect::Dialect;
use super::row_ids::RowIds;
use super::script::{Maybe, list};

/// The id of the semaphore of a request that holds permits of one only, else 0.
pub(crate) fn only_semaphore(request: &Request, rows: &RowIds) -> Result<u64, Error> {
    match request.permits.as_slice() {
        [only] => rows.semaphore(&only.semaphore),
        _ => Ok(0),
    }
}

/// `name,capacity,in_use,fence,created_at,updated_at,deleted_at`
pub(crate) fn new_semaphores<D: Dialect>(semaphores: &[SemaphoreRow]) -> String {
    let columns = semaphores.iter().map(semaphore_columns::<D>);
    list(columns.map(|columns| format!("({columns})")))
}

pub(crate) fn semaphore_columns<D: Dialect>(semaphore: &SemaphoreRow) -> String {
    format!(
        "{},{},{},{},{},{},{}",
        D::text(semaphore.name.as_str()),
        semaphore.capacity,
        semaphore.in_use,
        semaphore.fence,
        D::time(semaphore.created_at),
        D::time(semaphore.updated_at),
        Maybe(semaphore.deleted_at.map(D::time)),
    )
}

/// `semaphore_id,old_capacity,new_capacity,changed_by,note,changed_at`
pub(crate) fn capacity_changes<D: Dialect>(
    changes: &[CapacityChange],
    rows: &RowIds,
) -> Result<String, Error> {
    let values = changes.iter().map(|change| {
        Ok(format!(
            "({},{},{},{},{},{})",
            rows.semaphore(&change.semaphore)?,
            change.old_capacity,
            change.new_capacity,
            maybe_owner::<D>(change.changed_by.as_ref()),
            Maybe(change.note.as_ref().map(|note| D::text(note.as_str()))),
            D::time(change.changed_at),
        ))
    });
    Ok(list(values.collect::<Result<Vec<_>, Error>>()?))
}

/// `owner,ttl_ms,expires_at`. Where the server locks gaps, the position of each is
/// [noted](Dialect::noted).
pub(crate) fn sessions<D: Dialect>(sessions: &[OwnerSession]) -> String {
    list((0..).zip(sessions).map(|(at, session)| {
        format!(
            "({},{},{})",
            D::text(session.owner.as_str()),
            D::noted(at, session.ttl.as_ms()),
            D::time(session.expires_at)
        )
    }))
}

/// The ids of renewed requests, grouped by their TTL and new expiry.
pub(crate) fn renewed(
    renewed: &[Renewed],
    rows: &RowIds,
) -> Result<BTreeMap<(Ttl, Timestamp), Vec<u64>>, Error> {
    let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for renewed in renewed {
        let id = rows.request(&renewed.external_id)?;
        let how = (renewed.ttl, renewed.expires_at);
        alike.entry(how).or_default().push(id);
    }
    Ok(alike)
}

/// A request's id, and its `ended_by`.
type EndedBy<'a> = (u64, Option<&'a Owner>);

/// The ids of ended requests, grouped by the values of `end_reason,released_at,ended_by`.
pub(crate) fn ended<D: Dialect>(
    ended: &[Ended],
    rows: &RowIds,
) -> Result<Vec<([String; 3], String)>, Error> {
    let mut alike: BTreeMap<(&str, Timestamp), Vec<EndedBy<'_>>> = BTreeMap::new();
    for ended in ended {
        let id = rows.request(&ended.external_id)?;
        let how = (ended.reason.as_str(), ended.at);
        alike.entry(how).or_default().push((id, ended.by.as_ref()));
    }
    let sets = alike.into_iter().map(|((reason, at), ended)| {
        let set = [
            format!("'{reason}'"),
            D::time(at).to_string(),
            ended_by::<D>(&ended),
        ];
        (set, list(ended.iter().map(|(id, _)| id)))
    });
    Ok(sets.collect())
}

/// The value of `ended_by` for all of them, or an expression by `id`, so that simultaneous releases
/// share a statement.
fn ended_by<D: Dialect>(ended: &[EndedBy<'_>]) -> String {
    let mut by = ended.iter().map(|(_, by)| *by);
    let first = by.next().flatten();
    if by.all(|by| by == first) {
        return maybe_owner::<D>(first).to_string();
    }
    let cases = ended.iter().filter_map(|(id, by)| {
        let by = D::text((*by)?.as_str());
        Some(format!(" WHEN {id} THEN {by}"))
    });
    format!("CASE id{} END", cases.collect::<String>())
}

pub(crate) const fn state(state: State) -> &'static str {
    match state {
        State::Acquired => "ACQUIRED",
        State::Released { .. } => "RELEASED",
    }
}

pub(crate) fn maybe_owner<D: Dialect>(owner: Option<&Owner>) -> Maybe<impl std::fmt::Display> {
    Maybe(owner.map(|owner| D::text(owner.as_str())))
}

/// Slots as a literal: they are hexadecimal digits.
pub(crate) fn slots(slots: Option<&Slots>) -> Maybe<impl std::fmt::Display> {
    Maybe(slots.map(|slots| format!("'{slots}'")))
}
