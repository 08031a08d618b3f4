//! What is due to end, and whose requests are live.
//!
//! The indexes and the order of the joins are forced: each begins at what is due, so that what is
//! held and what has ended cost nothing.

use lockhouse_core::store::Page;
use lockhouse_core::{Owner, SemaphoreName, Timestamp};

use super::sql::{Text, Time};
use crate::sql::{Script, Wanted, list};

/// The SELECT that chooses what is `wanted` at `now`.
pub(super) fn chosen(wanted: &Wanted, now: Timestamp, limit: u32) -> String {
    match wanted {
        Wanted::Lapsed { on } => lapsed(on.as_deref(), now, limit),
        Wanted::OwnedBy(owner) => format!(
            "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (held_by) \
             WHERE r.held_by={} LIMIT {limit}",
            Text(owner.as_str())
        ),
    }
}

pub(super) fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script {
    Script::of(format_args!(
        "SELECT r.created_at {} ORDER BY r.created_at LIMIT 1 OFFSET {skipped}",
        of_age(after, cutoff)
    ))
}

/// The SELECT that chooses those made by `to` that no session keeps.
pub(super) fn stale(after: Timestamp, to: Timestamp, now: Timestamp) -> String {
    format!(
        "SELECT r.* {} AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
         WHERE w.owner=r.owner AND w.expires_at>{})",
        of_age(after, to),
        Time(now)
    )
}

fn of_age(after: Timestamp, to: Timestamp) -> String {
    format!(
        "FROM lockhouse_permit_request r FORCE INDEX (due) \
         WHERE r.state='ACQUIRED' AND r.due_at IS NULL AND r.created_at>{} AND r.created_at<={}",
        Time(after),
        Time(to)
    )
}

fn lapsed(on: Option<&[SemaphoreName]>, now: Timestamp, limit: u32) -> String {
    let held = match on {
        Some(on) => format!(
            "STRAIGHT_JOIN lockhouse_permit h FORCE INDEX (PRIMARY) ON h.permit_request_id=r.id \
             STRAIGHT_JOIN lockhouse_semaphore o FORCE INDEX (PRIMARY) \
             ON o.id=h.semaphore_id AND o.name IN ({})",
            list(on.iter().map(|name| Text(name.as_str())))
        ),
        None => String::new(),
    };
    let now = Time(now);
    format!(
        "SELECT r.* FROM (\
         (SELECT DISTINCT r.id FROM lockhouse_permit_request r FORCE INDEX (due) {held} \
         WHERE r.state='ACQUIRED' AND r.due_at<={now} LIMIT {limit}) \
         UNION \
         (SELECT DISTINCT r.id FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
         STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (held_by) \
         ON r.held_by=w.owner {held} \
         WHERE w.expires_at<={now} LIMIT {limit}) \
         LIMIT {limit}) d \
         STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) ON r.id=d.id"
    )
}

pub(super) fn owners(page: &Page<Owner>) -> Script {
    // No owner is the empty text, and NULL is beyond nothing.
    let after = page.after.as_ref().map_or("", Owner::as_str);
    Script::of(format_args!(
        "SELECT DISTINCT r.held_by FROM lockhouse_permit_request r FORCE INDEX (held_by) \
         WHERE r.held_by>{} ORDER BY r.held_by LIMIT {}",
        Text(after),
        page.limit
    ))
}
