//! SELECTs of requests that are due, and of owners of live requests.
//!
//! Each begins at the due rows, so that held and ended requests cost nothing.

use lockhouse_core::store::Page;
use lockhouse_core::{Owner, SemaphoreName, Timestamp};

use super::sql::{Text, Time};
use crate::lapsed::{LASTING, SEVERAL, bucket, buckets};
use crate::sql::{Look, Script, list};

/// The bucket of a request, as the index has it.
const BUCKET: &str = "(CASE WHEN r.expires_at IS NULL THEN 1 WHEN r.only_semaphore_id=0 THEN 2 \
    ELSE 3+r.only_semaphore_id%256 END)";

/// The SELECT of the live requests of `owner`.
pub(super) fn owned_by(owner: &Owner, limit: u32) -> String {
    format!(
        "SELECT r.* FROM lockhouse_permit_request r \
         WHERE r.state='ACQUIRED' AND r.owner={} LIMIT {limit}",
        Text(owner.as_str())
    )
}

/// The SELECT of the requests that have lapsed at `now`.
pub(super) fn lapsed(now: Timestamp, limit: u32) -> String {
    let now = Time(now);
    chosen(
        &[
            format!(
                "{LIVE} AND {BUCKET} IN ({}) AND r.expires_at<={now}",
                list(buckets())
            ),
            format!(
                "SELECT r.id FROM lockhouse_owner_session w \
                 CROSS JOIN LATERAL ({LIVE} AND r.owner=w.owner OFFSET 0) r \
                 WHERE w.expires_at<={now}"
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
        "EXISTS (SELECT FROM lockhouse_permit h WHERE h.permit_request_id=r.id \
         AND h.semaphore_id IN ({ids}) OFFSET 0)"
    );
    let of_owner = |which: &str| {
        format!(
            "SELECT r.id FROM (SELECT w.owner FROM lockhouse_owner_session w WHERE w.expires_at={} \
             UNION ALL SELECT w.owner FROM lockhouse_owner_session w \
             WHERE w.expires_at>{} AND w.expires_at<={now} OFFSET 0) w \
             CROSS JOIN LATERAL ({LIVE} AND r.owner=w.owner AND {which} OFFSET 0) r",
            Time(Timestamp::UNIX_EPOCH),
            Time(look.left_out)
        )
    };
    chosen(
        &[
            format!(
                "{LIVE} AND {BUCKET} IN ({own}) AND r.expires_at<={now} \
                 AND r.only_semaphore_id IN ({ids})"
            ),
            format!("{LIVE} AND {BUCKET}={SEVERAL} AND r.expires_at<={now} AND {holds}"),
            of_owner(&format!("r.only_semaphore_id IN ({ids})")),
            of_owner(&format!("r.only_semaphore_id=0 AND {holds}")),
        ],
        limit,
    )
}

const LIVE: &str = "SELECT r.id FROM lockhouse_permit_request r WHERE r.state='ACQUIRED'";

/// The requests whose ids any of `ways` selects, at most `limit`.
fn chosen(ways: &[String], limit: u32) -> String {
    let ways = ways.iter().map(|way| format!("({way} LIMIT {limit})"));
    format!(
        "SELECT r.* FROM ({} LIMIT {limit}) d \
         CROSS JOIN LATERAL (SELECT r.* FROM lockhouse_permit_request r WHERE r.id=d.id OFFSET 0) r",
        ways.collect::<Vec<_>>().join(" UNION ")
    )
}

pub(super) fn look(on: &[SemaphoreName], sessions: u32) -> Script {
    Script::of(format_args!(
        "SELECT s.id,clock_timestamp(),(SELECT COUNT(*) FROM \
         (SELECT FROM lockhouse_owner_session w \
         WHERE w.expires_at<=statement_timestamp() LIMIT {sessions}) w) \
         FROM lockhouse_semaphore s WHERE s.name IN ({}) AND s.deleted_at IS NULL",
        list(on.iter().map(|name| Text(name.as_str())))
    ))
}

pub(super) fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script {
    // In the order of the index: the planner does not use the fact that the first column is the
    // same for all.
    Script::of(format_args!(
        "SELECT r.created_at {} ORDER BY r.expires_at,r.created_at LIMIT 1 OFFSET {skipped}",
        of_age(after, cutoff)
    ))
}

/// The SELECT of requests created by `to` that no session keeps. No index serves a COALESCE, so a session is found by its owner.
pub(super) fn stale(after: Timestamp, to: Timestamp, now: Timestamp) -> String {
    format!(
        "SELECT r.* {} AND NOT EXISTS (SELECT FROM lockhouse_owner_session w \
         WHERE w.owner=r.owner AND COALESCE(w.expires_at>{},FALSE) OFFSET 0)",
        of_age(after, to),
        Time(now)
    )
}

fn of_age(after: Timestamp, to: Timestamp) -> String {
    format!(
        "FROM lockhouse_permit_request r \
         WHERE r.state='ACQUIRED' AND {BUCKET}={LASTING} AND r.expires_at IS NULL \
         AND r.created_at>{} AND r.created_at<={}",
        Time(after),
        Time(to)
    )
}

pub(super) fn owners(page: &Page<Owner>) -> Script {
    // No owner is the empty text, so all come after it.
    let after = page.after.as_ref().map_or("", Owner::as_str);
    Script::of(format_args!(
        "SELECT DISTINCT r.owner FROM lockhouse_permit_request r \
         WHERE r.state='ACQUIRED' AND r.owner>{} ORDER BY r.owner LIMIT {}",
        Text(after),
        page.limit
    ))
}
