//! Writes changes as literals: rows for VALUES, in the order of the columns that each function
//! names, and ids for IN.

use std::collections::BTreeMap;

use lockhouse_core::store::Error;
use lockhouse_core::{
    CapacityChange, EndReason, Ended, Owner, OwnerSession, Renewed, Request, Semaphore, Slots,
    State, Timestamp, Ttl,
};

use super::dialect::Dialect;
use super::row_ids::RowIds;
use super::script::{Maybe, list};

/// `id,external_id,owner,state,end_reason,ttl_ms,expires_at,created_at,released_at,ended_by,
/// only_semaphore_id`, and `permit_request_id,semaphore_id,count,fence,slots`.
pub(crate) fn granted<D: Dialect>(
    granted: &[Request],
    rows: &RowIds,
) -> Result<(String, String), Error> {
    let mut requests = Vec::with_capacity(granted.len());
    let mut permits = Vec::with_capacity(granted.len());
    for request in granted {
        let id = rows.request(&request.external_id)?;
        requests.push(request_row::<D>(
            request,
            id,
            only_semaphore(request, rows)?,
        ));
        for permit in &request.permits {
            permits.push(format!(
                "({id},{},{},{},{})",
                rows.semaphore(&permit.semaphore)?,
                permit.count,
                permit.fence,
                slots(permit.slots.as_ref())
            ));
        }
    }
    Ok((list(requests), list(permits)))
}

/// The id of the semaphore of a request that holds permits of one only, else 0.
fn only_semaphore(request: &Request, rows: &RowIds) -> Result<u64, Error> {
    match request.permits.as_slice() {
        [only] => rows.semaphore(&only.semaphore),
        _ => Ok(0),
    }
}

fn request_row<D: Dialect>(request: &Request, id: u64, only_semaphore: u64) -> String {
    format!(
        "({},{},{},'{}',{},{},{},{},{},{},{only_semaphore})",
        D::noted(id, id),
        D::text(request.external_id.as_str()),
        maybe_owner::<D>(request.owner.as_ref()),
        state(request.state),
        Maybe(request.end_reason().map(reason)),
        Maybe(request.ttl.map(Ttl::as_ms)),
        Maybe(request.expires_at.map(D::time)),
        D::time(request.created_at),
        Maybe(request.released_at().map(D::time)),
        maybe_owner::<D>(request.ended_by.as_ref()),
    )
}

/// `id,name,capacity,in_use,fence,created_at,updated_at,deleted_at,line,template,is_resized,used_at,slots`
pub(crate) fn semaphores<D: Dialect>(
    semaphores: &[Semaphore],
    rows: &RowIds,
) -> Result<String, Error> {
    let values = semaphores.iter().map(|semaphore| {
        let id = rows.semaphore(&semaphore.name)?;
        // A line is digits, letters and punctuation that need no escape.
        let origin = semaphore.origin.as_ref();
        Ok(format!(
            "({id},{},'{}',{},{},{},{})",
            semaphore_columns::<D>(semaphore),
            semaphore.line,
            Maybe(origin.map(|origin| D::text(origin.template.as_str()))),
            u8::from(origin.is_some_and(|origin| origin.is_resized)),
            Maybe(origin.map(|origin| D::time(origin.used_at))),
            slots(semaphore.slots.as_ref()),
        ))
    });
    Ok(list(values.collect::<Result<Vec<_>, Error>>()?))
}

/// `name,capacity,in_use,fence,created_at,updated_at,deleted_at`
pub(crate) fn new_semaphores<D: Dialect>(semaphores: &[Semaphore]) -> String {
    let columns = semaphores.iter().map(semaphore_columns::<D>);
    list(columns.map(|columns| format!("({columns})")))
}

fn semaphore_columns<D: Dialect>(semaphore: &Semaphore) -> String {
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

const fn state(state: State) -> &'static str {
    match state {
        State::Acquired => "ACQUIRED",
        State::Released { .. } => "RELEASED",
    }
}

fn maybe_owner<D: Dialect>(owner: Option<&Owner>) -> Maybe<impl std::fmt::Display> {
    Maybe(owner.map(|owner| D::text(owner.as_str())))
}

/// Slots as a literal: they are hexadecimal digits.
pub(crate) fn slots(slots: Option<&Slots>) -> Maybe<impl std::fmt::Display> {
    Maybe(slots.map(|slots| format!("'{slots}'")))
}

fn reason(reason: EndReason) -> String {
    format!("'{reason}'")
}
