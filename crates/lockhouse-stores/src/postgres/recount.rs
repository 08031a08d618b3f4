//! The SQL of verification and repair.

use lockhouse_core::{SemaphoreName, Slots};

use super::sql::{BEGIN, Text};
use crate::sql::{Script, rows, values};

/// Statements that read whole tables may take longer, and the server may choose their plans freely.
const WHOLE_TABLES: [&str; 2] = [
    "SET LOCAL statement_timeout='10min'",
    "SET LOCAL enable_seqscan=on",
];

/// One snapshot, which the first SELECT takes.
pub(super) fn count(torn: usize) -> Script {
    let mut script = Script::of("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    for setting in WHOLE_TABLES {
        script.add(setting);
    }
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s ORDER BY s.name",
        rows::SEMAPHORE
    ));
    script.add(
        "SELECT p.semaphore_id,COALESCE(SUM(p.count) FILTER (WHERE r.state='ACQUIRED'),0),\
         MAX(p.fence),COUNT(*)-COUNT(DISTINCT p.fence),\
         COUNT(*) FILTER (WHERE r.state='ACQUIRED' AND r.only_semaphore_id NOT IN (0,p.semaphore_id)) \
         FROM lockhouse_permit p \
         LEFT JOIN lockhouse_permit_request r ON r.id=p.permit_request_id \
         GROUP BY p.semaphore_id",
    );
    script.add(
        "SELECT p.semaphore_id,p.slots FROM lockhouse_permit p \
         JOIN lockhouse_permit_request r ON r.id=p.permit_request_id \
         WHERE r.state='ACQUIRED' AND p.slots IS NOT NULL",
    );
    script.add(format_args!(
        "SELECT DISTINCT r.external_id FROM lockhouse_permit_request r \
         LEFT JOIN lockhouse_permit p ON p.permit_request_id=r.id \
         WHERE p.permit_request_id IS NULL \
         OR (r.state='RELEASED')<>(r.released_at IS NOT NULL) \
         OR (r.state='RELEASED')<>(r.end_reason IS NOT NULL) \
         OR (r.state='ACQUIRED' AND r.ended_by IS NOT NULL) \
         ORDER BY r.external_id LIMIT {torn}"
    ));
    script.add("COMMIT");
    script
}

pub(super) fn last_fence(name: &SemaphoreName) -> Script {
    // Without a BEGIN the packet is one transaction, and the settings hold for it alone.
    let mut script = Script::new();
    for setting in WHOLE_TABLES {
        script.add(setting);
    }
    script.add(format_args!(
        "SELECT s.id,MAX(p.fence) FROM lockhouse_semaphore s \
         LEFT JOIN lockhouse_permit p ON p.semaphore_id=s.id WHERE s.name={} GROUP BY s.id",
        Text(name.as_str())
    ));
    script
}

pub(super) fn count_live(name: &SemaphoreName, id: u64) -> Script {
    let mut script = Script::transaction(BEGIN);
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s WHERE s.name={} FOR UPDATE",
        rows::SEMAPHORE,
        Text(name.as_str())
    ));
    script.add(format_args!(
        "SELECT COALESCE(SUM(p.count),0),COUNT(*) FILTER (WHERE r.only_semaphore_id NOT IN (0,{id})) FROM lockhouse_permit_request r \
         CROSS JOIN LATERAL (SELECT p.count FROM lockhouse_permit p \
         WHERE p.permit_request_id=r.id AND p.semaphore_id={id} OFFSET 0) p \
         WHERE r.state='ACQUIRED'"
    ));
    script
}

pub(super) fn live_slots(id: u64) -> Script {
    Script::within(format_args!(
        "SELECT p.semaphore_id,p.slots FROM lockhouse_permit_request r \
         CROSS JOIN LATERAL (SELECT p.* FROM lockhouse_permit p \
         WHERE p.permit_request_id=r.id AND p.semaphore_id={id} OFFSET 0) p \
         WHERE r.state='ACQUIRED' AND p.slots IS NOT NULL"
    ))
}

pub(super) fn write_counts(id: u64, in_use: u32, fence: u64, slots: Option<&Slots>) -> Script {
    let mut script = Script::of(format_args!(
        "UPDATE lockhouse_semaphore SET in_use={in_use},fence={fence},slots={} WHERE id={id}",
        values::slots(slots)
    ));
    script.add(format_args!(
        "UPDATE lockhouse_permit_request r SET only_semaphore_id=0 \
         WHERE r.state='ACQUIRED' AND r.only_semaphore_id NOT IN (0,{id}) AND EXISTS (\
         SELECT FROM lockhouse_permit p WHERE p.permit_request_id=r.id AND p.semaphore_id={id})"
    ));
    script.commit();
    script
}
