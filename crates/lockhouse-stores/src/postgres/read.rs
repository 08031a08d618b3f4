//! What the reads select.

use lockhouse_core::store::{Holders, Page};
use lockhouse_core::{ExternalId, SemaphoreName};

use super::sql::{PERMITS, Text};
use crate::sql::{Script, list, rows};

pub(super) fn named(names: &[SemaphoreName]) -> Script {
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s \
         WHERE s.name IN ({}) AND s.deleted_at IS NULL",
        rows::SEMAPHORE,
        list(names.iter().map(|name| Text(name.as_str())))
    ))
}

pub(super) fn semaphores(page: &Page<SemaphoreName>, deleted: bool) -> Script {
    let which = if deleted {
        "TRUE"
    } else {
        "s.deleted_at IS NULL"
    };
    let after = page.after.as_ref().map(SemaphoreName::as_str);
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s \
         WHERE {which} {} ORDER BY s.name LIMIT {}",
        rows::SEMAPHORE,
        beyond("s.name", after),
        page.limit
    ))
}

pub(super) fn request(external_id: &ExternalId) -> Script {
    with_permits(&format!(
        "SELECT r.* FROM lockhouse_permit_request r WHERE r.external_id={}",
        Text(external_id.as_str())
    ))
}

pub(super) fn holders(of: &Holders, page: &Page<ExternalId>) -> Script {
    let after = beyond("r.external_id", page.after.as_ref().map(ExternalId::as_str));
    let owned = match &of.owner {
        Some(owner) => format!("AND r.owner={}", Text(owner.as_str())),
        None => String::new(),
    };
    let limit = page.limit;
    let chosen = match &of.on {
        Some(name) => format!(
            "SELECT r.* FROM lockhouse_semaphore o \
             CROSS JOIN LATERAL (SELECT r.* FROM lockhouse_permit_request r \
             WHERE r.state='ACQUIRED' {owned} AND EXISTS (SELECT FROM lockhouse_permit h \
             WHERE h.permit_request_id=r.id AND h.semaphore_id=o.id) OFFSET 0) r \
             WHERE o.name={} {after} ORDER BY r.external_id LIMIT {limit}",
            Text(name.as_str())
        ),
        None => format!(
            "SELECT r.* FROM lockhouse_permit_request r \
             WHERE r.state='ACQUIRED' {owned} {after} ORDER BY r.external_id LIMIT {limit}"
        ),
    };
    with_permits(&chosen)
}

pub(super) fn history(name: &SemaphoreName, limit: u32) -> Script {
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s \
         CROSS JOIN LATERAL (SELECT c.* FROM lockhouse_capacity_change c WHERE c.semaphore_id=s.id \
         ORDER BY c.changed_at DESC,c.id DESC LIMIT {limit}) c \
         WHERE s.name={} ORDER BY c.changed_at DESC,c.id DESC",
        rows::CAPACITY_CHANGE,
        Text(name.as_str())
    ))
}

/// The requests that the SELECT `chosen` chooses, with their permits.
pub(super) fn with_permits(chosen: &str) -> Script {
    Script::of(format_args!(
        "SELECT {},{} FROM ({chosen} OFFSET 0) r {PERMITS} ORDER BY r.external_id",
        rows::REQUEST,
        rows::PERMIT
    ))
}

fn beyond(column: &str, after: Option<&str>) -> String {
    match after {
        Some(after) => format!("AND {column}>{}", Text(after)),
        None => String::new(),
    }
}
