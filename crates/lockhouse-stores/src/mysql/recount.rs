//! The SQL of verification and repair.

use lockhouse_core::{SemaphoreName, Slots};

use super::sql::{BEGIN, Text};
use crate::sql::{Script, rows, values};

/// One snapshot, in a transaction with a separate isolation level.
pub(super) fn count(torn: usize) -> Script {
    let mut script = Script::of("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    script.add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s ORDER BY s.name",
        rows::SEMAPHORE
    ));
    script.add(
        "SELECT p.semaphore_id,SUM(IF(r.state='ACQUIRED',p.count,0)),MAX(p.fence),\
         COUNT(*)-COUNT(DISTINCT p.fence),\
         COUNT(CASE WHEN r.state='ACQUIRED' AND r.only_semaphore_id NOT IN (0,p.semaphore_id) THEN 1 END) \
         FROM lockhouse_permit p FORCE INDEX (PRIMARY) \
         LEFT JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) ON r.id=p.permit_request_id \
         GROUP BY p.semaphore_id",
    );
    script.add(
        "SELECT p.semaphore_id,p.slots FROM lockhouse_permit_request r FORCE INDEX (due) \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.permit_request_id=r.id \
         WHERE r.state='ACQUIRED' AND p.slots IS NOT NULL",
    );
    script.add(format_args!(
        "SELECT DISTINCT r.external_id FROM lockhouse_permit_request r FORCE INDEX (PRIMARY) \
         LEFT JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.permit_request_id=r.id \
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
    Script::of(format_args!(
        "SELECT s.id,MAX(p.fence) FROM lockhouse_semaphore s \
         LEFT JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.semaphore_id=s.id \
         WHERE s.name={} GROUP BY s.id",
        Text(name.as_str())
    ))
}

pub(super) fn count_live(name: &SemaphoreName, id: u64) -> Script {
    let mut script = Script::transaction(BEGIN);
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) WHERE s.name={} FOR UPDATE",
        rows::SEMAPHORE,
        Text(name.as_str())
    ));
    script.add(format_args!(
        "SELECT COALESCE(SUM(p.count),0),COUNT(CASE WHEN r.only_semaphore_id NOT IN (0,{id}) THEN 1 END) FROM lockhouse_permit_request r FORCE INDEX (due) \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) \
         ON p.permit_request_id=r.id AND p.semaphore_id={id} WHERE r.state='ACQUIRED'"
    ));
    script
}

pub(super) fn live_slots(id: u64) -> Script {
    Script::within(format_args!(
        "SELECT p.semaphore_id,p.slots FROM lockhouse_permit_request r FORCE INDEX (due) \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) \
         ON p.permit_request_id=r.id AND p.semaphore_id={id} \
         WHERE r.state='ACQUIRED' AND p.slots IS NOT NULL"
    ))
}

pub(super) fn write_counts(id: u64, in_use: u32, fence: u64, slots: Option<&Slots>) -> Script {
    let mut script = Script::of(format_args!(
        "UPDATE lockhouse_semaphore FORCE INDEX (PRIMARY) SET in_use={in_use},fence={fence},slots={} \
         WHERE id={id}",
        values::slots(slots)
    ));
    // The innermost SELECT locks no rows, because isolation is READ COMMITTED.
    script.add(format_args!(
        "UPDATE lockhouse_permit_request FORCE INDEX (PRIMARY) SET only_semaphore_id=0 WHERE id IN (\
         SELECT id FROM (SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (due) \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) \
         ON p.permit_request_id=r.id AND p.semaphore_id={id} \
         WHERE r.state='ACQUIRED' AND r.only_semaphore_id NOT IN (0,{id})) misfiled)"
    ));
    script.commit();
    script
}
