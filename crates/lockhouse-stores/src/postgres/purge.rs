//! The SQL of a purge: find, lock and delete.

use lockhouse_core::store::Purge;
use lockhouse_core::{Epoch, Timestamp};

use super::sql::{BEGIN, Text, Time};
use crate::sql::{Script, list};

/// Finds the keys of the oldest rows, and locks nothing.
pub(super) fn find(what: Purge, cutoff: Timestamp, limit: u32) -> Script {
    let cutoff = Time(cutoff);
    Script::of(match what {
        Purge::Requests { .. } => format!(
            "SELECT r.external_id FROM lockhouse_permit_request r \
             WHERE r.released_at<={cutoff} ORDER BY r.released_at LIMIT {limit}"
        ),
        Purge::CapacityChanges { .. } => format!(
            "SELECT c.id FROM lockhouse_capacity_change c \
             WHERE c.changed_at<={cutoff} ORDER BY c.changed_at LIMIT {limit}"
        ),
        Purge::Sessions { .. } => format!(
            "SELECT w.owner FROM lockhouse_owner_session w \
             WHERE w.expires_at<={cutoff} AND NOT EXISTS (\
             SELECT FROM lockhouse_permit_request r WHERE r.state='ACQUIRED' AND r.owner=w.owner OFFSET 0) \
             ORDER BY w.expires_at LIMIT {limit}"
        ),
        Purge::Semaphores { .. } => format!(
            "SELECT s.name,s.fence FROM lockhouse_semaphore s \
             WHERE s.deleted_at<={cutoff} AND s.name<>{} ORDER BY s.deleted_at LIMIT {limit}",
            Text(Epoch::semaphore().as_str())
        ),
    })
}

/// Locks those of `keys` that no other transaction has locked, and selects their ids.
///
/// No index serves a COALESCE. The rows are found by their keys even if the server, whose statistics are older than the rows,
/// takes rows of that age for rare.
pub(super) fn lock(what: Purge, cutoff: Timestamp, keys: &str) -> Script {
    let cutoff = Time(cutoff);
    let mut script = Script::transaction(BEGIN);
    script.add(match what {
        Purge::Requests { .. } => format!(
            "SELECT r.id FROM lockhouse_permit_request r \
             WHERE r.external_id IN ({keys}) AND r.state='RELEASED' \
             AND COALESCE(r.released_at<={cutoff},FALSE) ORDER BY r.external_id FOR UPDATE SKIP LOCKED"
        ),
        Purge::CapacityChanges { .. } => format!(
            "SELECT c.id FROM lockhouse_capacity_change c \
             WHERE c.id IN ({keys}) AND COALESCE(c.changed_at<={cutoff},FALSE) ORDER BY c.id FOR UPDATE SKIP LOCKED"
        ),
        Purge::Sessions { .. } => format!(
            "SELECT w.owner FROM lockhouse_owner_session w \
             WHERE w.owner IN ({keys}) AND COALESCE(w.expires_at<={cutoff},FALSE) \
             ORDER BY w.owner FOR UPDATE SKIP LOCKED"
        ),
        Purge::Semaphores { .. } => format!(
            "SELECT s.id,s.fence FROM lockhouse_semaphore s \
             WHERE s.name IN ({keys}) AND COALESCE(s.deleted_at<={cutoff},FALSE) ORDER BY s.name FOR UPDATE SKIP LOCKED"
        ),
    });
    script
}

/// Deletes the rows of `ids`, which are locked.
pub(super) fn delete(what: Purge, ids: &[String]) -> Script {
    let keys: &[&str] = match what {
        Purge::Requests { .. } => &[
            "lockhouse_permit WHERE permit_request_id",
            "lockhouse_permit_request WHERE id",
        ],
        Purge::CapacityChanges { .. } => &["lockhouse_capacity_change WHERE id"],
        Purge::Sessions { .. } => &["lockhouse_owner_session WHERE owner"],
        Purge::Semaphores { .. } => &["lockhouse_semaphore WHERE id"],
    };
    let ids = list(ids);
    let mut script = Script::new();
    for key in keys {
        script.add(format_args!("DELETE FROM {key} IN ({ids})"));
    }
    script.commit();
    script
}
