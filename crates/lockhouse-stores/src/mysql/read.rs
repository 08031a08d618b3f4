//! The SQL of the reads.

use lockhouse_core::SemaphoreName;

use super::sql::Text;
use crate::sql::{Script, rows};

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
