//! What the reads select.

use lockhouse_core::store::{Holders, Page};
use lockhouse_core::{ExternalId, SemaphoreName};

use super::sql::Text;
use crate::sql::{Script, list, rows};

pub(super) fn named(names: &[SemaphoreName]) -> Script {
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
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
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
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
    let live = match &of.owner {
        Some(owner) => format!(
            "lockhouse_permit_request r FORCE INDEX (held_by) ON r.held_by={}",
            Text(owner.as_str())
        ),
        None => "lockhouse_permit_request r FORCE INDEX (due) ON r.state='ACQUIRED'".to_owned(),
    };
    let chosen = match &of.on {
        Some(name) => format!(
            "FROM lockhouse_semaphore o STRAIGHT_JOIN {live} \
             STRAIGHT_JOIN lockhouse_permit h FORCE INDEX (PRIMARY) \
             ON h.permit_request_id=r.id AND h.semaphore_id=o.id \
             WHERE o.name={}",
            Text(name.as_str())
        ),
        None => format!("FROM (SELECT 1) one STRAIGHT_JOIN {live} WHERE TRUE"),
    };
    let limit = page.limit;
    with_permits(&format!(
        "SELECT r.* {chosen} {after} ORDER BY r.external_id LIMIT {limit}"
    ))
}

pub(super) fn history(name: &SemaphoreName, limit: u32) -> Script {
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s STRAIGHT_JOIN lockhouse_capacity_change c \
         FORCE INDEX (history) ON c.semaphore_id=s.id \
         WHERE s.name={} ORDER BY c.changed_at DESC,c.id DESC LIMIT {limit}",
        rows::CAPACITY_CHANGE,
        Text(name.as_str())
    ))
}

/// The requests that the SELECT `chosen` chooses, with their permits.
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

fn beyond(column: &str, after: Option<&str>) -> String {
    match after {
        Some(after) => format!("AND {column}>{}", Text(after)),
        None => String::new(),
    }
}
