//! The SQL of the reads.

use lockhouse_core::store::Page;
use lockhouse_core::{ExternalId, SemaphoreName};

use super::sql::Text;
use crate::sql::{Names, Script, list, rows};

pub(super) fn named(names: &[SemaphoreName]) -> Script {
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
         WHERE s.name IN ({}) AND s.deleted_at IS NULL",
        rows::SEMAPHORE,
        list(names.iter().map(|name| Text(name.as_str())))
    ))
}

pub(super) fn semaphores(names: &Names, page: &Page<SemaphoreName>) -> Script {
    let after = page.after.as_ref().map(SemaphoreName::as_str);
    let mut which = format!("s.name>{}", Text(after.unwrap_or_default()));
    if let Names::Existing(prefix) = names {
        which += " AND s.deleted_at IS NULL";
        if let Some(prefix) = prefix {
            which += &format!(" AND s.name>={}", Text(prefix.as_str()));
            if let Some(end) = prefix.end() {
                which += &format!(" AND s.name<{}", Text(&end));
            }
        }
    }
    Script::of(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) WHERE {which} ORDER BY s.name LIMIT {}",
        rows::SEMAPHORE,
        page.limit
    ))
}

pub(super) fn request(external_id: &ExternalId) -> Script {
    with_permits(&format!(
        "SELECT r.* FROM lockhouse_permit_request r WHERE r.external_id={}",
        Text(external_id.as_str())
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

/// The requests whose ids `chosen` selects, with their permits.
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
