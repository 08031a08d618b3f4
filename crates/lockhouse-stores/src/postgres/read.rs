//! The SQL of the reads.

use lockhouse_core::SemaphoreName;

use super::sql::{PERMITS, Text};
use crate::sql::{Script, rows};

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

/// The requests whose ids `chosen` selects, with their permits.
pub(super) fn with_permits(chosen: &str) -> Script {
    Script::of(format_args!(
        "SELECT {},{} FROM ({chosen} OFFSET 0) r {PERMITS} ORDER BY r.external_id",
        rows::REQUEST,
        rows::PERMIT
    ))
}
