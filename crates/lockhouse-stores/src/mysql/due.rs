//! SELECTs of requests that are due, and of owners of live requests.
//!
//! The indexes and the order of the joins are forced. Each SELECT begins at the due rows, so that
//! held and ended requests cost nothing.

use lockhouse_core::store::Page;
use lockhouse_core::{Owner, SemaphoreName, Timestamp};

use super::sql::{Text, Time};
use crate::lapsed::{LASTING, SEVERAL, bucket, buckets};
use crate::sql::{Look, Script, list};

/// The SELECT of the live requests of `owner`.
pub(super) fn owned_by(owner: &Owner, limit: u32) -> String {
    format!(
        "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (held_by) \
         WHERE r.held_by={} LIMIT {limit}",
        Text(owner.as_str())
    )
}

/// The SELECT of the requests that have lapsed at `now`.
pub(super) fn lapsed(now: Timestamp, limit: u32) -> String {
    let now = Time(now);
    chosen(
        &[
            format!(
                "{EXPIRED} AND r.due_bucket IN ({}) AND r.due_at<={now}",
                list(buckets())
            ),
            format!(
                "SELECT r.id FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
                 STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (held_by) \
                 ON r.held_by=w.owner WHERE w.expires_at<={now}"
            ),
        ],
        limit,
    )
}

/// The SELECT of the lapsed requests that a `look` needs: by request and by session, each for one semaphore and
/// for several.
pub(super) fn lapsed_on(look: &Look<'_>, now: Timestamp, limit: u32) -> String {
    let now = Time(now);
    let ids = list(look.on);
    let own = list(look.on.iter().map(|id| bucket(*id)));
    let holds = format!(
        "STRAIGHT_JOIN lockhouse_permit h FORCE INDEX (PRIMARY) \
         ON h.permit_request_id=r.id AND h.semaphore_id IN ({ids})"
    );
    let sessions = format!(
        "w.expires_at<={now} AND (w.expires_at>{} OR w.expires_at={})",
        Time(look.left_out),
        Time(Timestamp::UNIX_EPOCH)
    );
    chosen(
        &[
            format!(
                "{EXPIRED} AND r.due_bucket IN ({own}) AND r.due_at<={now} \
                 AND r.only_semaphore_id IN ({ids})"
            ),
            format!(
                "SELECT DISTINCT r.id FROM lockhouse_permit_request r FORCE INDEX (due) {holds} \
                 WHERE r.state='ACQUIRED' AND r.due_bucket={SEVERAL} AND r.due_at<={now}"
            ),
            format!(
                "SELECT r.id FROM lockhouse_semaphore o FORCE INDEX (PRIMARY) \
                 STRAIGHT_JOIN lockhouse_owner_session w FORCE INDEX (lapsed) \
                 STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (held_by) \
                 ON r.held_by=w.owner AND r.only_semaphore_id=o.id \
                 WHERE o.id IN ({ids}) AND {sessions}"
            ),
            format!(
                "SELECT DISTINCT r.id FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
                 STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (held_by) \
                 ON r.held_by=w.owner AND r.only_semaphore_id=0 {holds} WHERE {sessions}"
            ),
        ],
        limit,
    )
}

const EXPIRED: &str = "SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (due) \
    WHERE r.state='ACQUIRED'";

/// The requests whose ids any of `ways` selects, at most `limit`.
fn chosen(ways: &[String], limit: u32) -> String {
    let ways = ways.iter().map(|way| format!("({way} LIMIT {limit})"));
    format!(
        "SELECT r.* FROM ({} LIMIT {limit}) d \
         STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) ON r.id=d.id",
        ways.collect::<Vec<_>>().join(" UNION ")
    )
}

pub(super) fn look(on: &[SemaphoreName], sessions: u32) -> Script {
    Script::of(format_args!(
        "SELECT s.id,SYSDATE(6),(SELECT COUNT(*) FROM \
         (SELECT 1 FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
         WHERE w.expires_at<=NOW(6) LIMIT {sessions}) w) \
         FROM lockhouse_semaphore s FORCE INDEX (name) \
         WHERE s.name IN ({}) AND s.deleted_at IS NULL",
        list(on.iter().map(|name| Text(name.as_str())))
    ))
}

pub(super) fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script {
    Script::of(format_args!(
        "SELECT r.created_at {} ORDER BY r.created_at LIMIT 1 OFFSET {skipped}",
        of_age(after, cutoff)
    ))
}

/// The SELECT of requests created by `to` that no session keeps.
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
         WHERE r.state='ACQUIRED' AND r.due_bucket={LASTING} AND r.due_at IS NULL \
         AND r.created_at>{} AND r.created_at<={}",
        Time(after),
        Time(to)
    )
}

pub(super) fn owners(page: &Page<Owner>) -> Script {
    // No owner is the empty text, so all come after it.
    let after = page.after.as_ref().map_or("", Owner::as_str);
    Script::of(format_args!(
        "SELECT DISTINCT r.held_by FROM lockhouse_permit_request r FORCE INDEX (held_by) \
         WHERE r.held_by>{} ORDER BY r.held_by LIMIT {}",
        Text(after),
        page.limit
    ))
}
