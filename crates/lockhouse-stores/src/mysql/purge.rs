//! The SQL of a purge: find, lock and delete.

use lockhouse_core::store::Purge;
use lockhouse_core::{Epoch, Timestamp};

use super::sql::{BEGIN, Text, Time};
use crate::sql::Script;

/// How many rows one statement deletes by a join. One row in each statement took four times as
/// long.
const JOINED: usize = 100;

/// Finds the keys of the oldest rows, and locks nothing.
pub(super) fn find(what: Purge, cutoff: Timestamp, limit: u32) -> Script {
    let cutoff = Time(cutoff);
    Script::of(match what {
        Purge::Requests { .. } => format!(
            "SELECT r.external_id FROM lockhouse_permit_request r FORCE INDEX (due) \
             WHERE r.state='RELEASED' AND r.due_bucket=0 AND r.due_at<={cutoff} ORDER BY r.due_at LIMIT {limit}"
        ),
        Purge::CapacityChanges { .. } => format!(
            "SELECT c.id FROM lockhouse_capacity_change c FORCE INDEX (changed) \
             WHERE c.changed_at<={cutoff} ORDER BY c.changed_at LIMIT {limit}"
        ),
        Purge::Sessions { .. } => format!(
            "SELECT w.owner FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
             LEFT JOIN lockhouse_permit_request r FORCE INDEX (held_by) \
             ON r.held_by=w.owner \
             WHERE w.expires_at<={cutoff} AND r.id IS NULL \
             ORDER BY w.expires_at LIMIT {limit}"
        ),
        Purge::Semaphores { .. } => format!(
            "SELECT s.name,s.fence FROM lockhouse_semaphore s FORCE INDEX (deleted) \
             WHERE s.deleted_at<={cutoff} AND s.name<>{} ORDER BY s.deleted_at LIMIT {limit}",
            Text(Epoch::semaphore().as_str())
        ),
    })
}

/// Locks those of `keys` that no other transaction has locked, and selects their ids.
pub(super) fn lock(what: Purge, cutoff: Timestamp, keys: &str) -> Script {
    let cutoff = Time(cutoff);
    let mut script = Script::transaction(BEGIN);
    script.add(match what {
        Purge::Requests { .. } => format!(
            "SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (external_id) \
             WHERE r.external_id IN ({keys}) AND r.state='RELEASED' \
             AND r.released_at<={cutoff} ORDER BY r.external_id FOR UPDATE SKIP LOCKED"
        ),
        Purge::CapacityChanges { .. } => format!(
            "SELECT c.id FROM lockhouse_capacity_change c FORCE INDEX (PRIMARY) \
             WHERE c.id IN ({keys}) AND c.changed_at<={cutoff} ORDER BY c.id FOR UPDATE SKIP LOCKED"
        ),
        Purge::Sessions { .. } => format!(
            "SELECT w.owner FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
             WHERE w.owner IN ({keys}) AND w.expires_at<={cutoff} \
             ORDER BY w.owner FOR UPDATE SKIP LOCKED"
        ),
        Purge::Semaphores { .. } => format!(
            "SELECT s.id,s.fence FROM lockhouse_semaphore s FORCE INDEX (name) \
             WHERE s.name IN ({keys}) AND s.deleted_at<={cutoff} ORDER BY s.name FOR UPDATE SKIP LOCKED"
        ),
    });
    script
}

/// Deletes the rows of `ids`, which are locked. A DELETE takes no index hint: if the table is small
/// or its statistics are old, a DELETE of several rows scans it and waits for locked rows. So rows
/// are deleted one by one, or many by a join that looks each of them up.
pub(super) fn delete(what: Purge, ids: &[String]) -> Script {
    let mut script = Script::new();
    match what {
        Purge::Requests { .. } => {
            for some in ids.chunks(JOINED) {
                delete_requests(&mut script, some);
            }
        }
        Purge::CapacityChanges { .. } => {
            for id in ids {
                script.add(format_args!(
                    "DELETE FROM lockhouse_capacity_change WHERE id={id}"
                ));
            }
        }
        Purge::Sessions { .. } => {
            for owner in ids {
                script.add(format_args!(
                    "DELETE FROM lockhouse_owner_session WHERE owner={owner}"
                ));
            }
        }
        Purge::Semaphores { .. } => {
            for id in ids {
                script.add(format_args!(
                    "DELETE FROM lockhouse_semaphore WHERE id={id}"
                ));
            }
        }
    }
    script.commit();
    script
}

fn delete_requests(script: &mut Script, ids: &[String]) {
    let keys = ids.join(" AS id UNION ALL SELECT ");
    for key in [
        "lockhouse_permit d FORCE INDEX (PRIMARY) ON d.permit_request_id",
        "lockhouse_permit_request d FORCE INDEX (PRIMARY) ON d.id",
    ] {
        script.add(format_args!(
            "DELETE d FROM (SELECT {keys} AS id) k STRAIGHT_JOIN {key}=k.id"
        ));
    }
}
