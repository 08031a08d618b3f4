//! What is due to end, and whose requests are live. Like the other reads, these lock nothing.
//!
//! The indexes and the order of the joins are forced: each begins at what is due, so that what is
//! held and what has ended cost nothing.

use std::time::Duration;

use lockhouse_core::store::{Due, Error, Page};
use lockhouse_core::{Owner, Request, SemaphoreName, Timestamp};

use super::Inner;
use super::read::{READ, clock, requests, select};
use super::rows;
use super::sql::{Script, Text, Time, list};

/// A [`Due`] that owns what it names.
#[derive(Debug)]
pub(super) enum Wanted {
    Lapsed { on: Option<Vec<SemaphoreName>> },
    Stale { age: Duration },
    OwnedBy(Owner),
}

impl From<Due<'_>> for Wanted {
    fn from(due: Due<'_>) -> Self {
        match due {
            Due::Lapsed { on } => Wanted::Lapsed {
                on: on.map(<[_]>::to_vec),
            },
            Due::Stale { age } => Wanted::Stale { age },
            Due::OwnedBy(owner) => Wanted::OwnedBy(owner.clone()),
        }
    }
}

pub(super) async fn due(store: &Inner, wanted: &Wanted, limit: u32) -> Result<Vec<Request>, Error> {
    if matches!(wanted, Wanted::Lapsed { on: Some(on) } if on.is_empty()) {
        return Ok(Vec::new());
    }
    let context = "looking for what is due";
    let mut lease = store.pool.lend(READ).await?;
    let now = clock(&mut lease, context).await?;
    requests(&mut lease, &chosen(wanted, now, limit), context).await
}

/// The SELECT that chooses what is `wanted` at `now`.
pub(super) fn chosen(wanted: &Wanted, now: Timestamp, limit: u32) -> String {
    match wanted {
        Wanted::Lapsed { on } => lapsed(on.as_deref(), now, limit),
        // Those that their owner's session keeps are passed over here: they would fill the limit,
        // and hide what lies behind them.
        Wanted::Stale { age } => format!(
            "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (live) \
             WHERE r.state='ACQUIRED' AND r.expires_at IS NULL AND r.created_at<={} \
             AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
             WHERE w.owner=r.owner AND w.expires_at>{}) \
             ORDER BY r.created_at LIMIT {limit}",
            Time(before(now, *age)),
            Time(now)
        ),
        Wanted::OwnedBy(owner) => format!(
            "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (owned) \
             WHERE r.state='ACQUIRED' AND r.owner={} LIMIT {limit}",
            Text(owner.as_str())
        ),
    }
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
         (SELECT DISTINCT r.id FROM lockhouse_permit_request r FORCE INDEX (live) {held} \
         WHERE r.state='ACQUIRED' AND r.expires_at<={now} LIMIT {limit}) \
         UNION \
         (SELECT DISTINCT r.id FROM lockhouse_owner_session w FORCE INDEX (lapsed) \
         STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (owned) \
         ON r.state='ACQUIRED' AND r.owner=w.owner {held} \
         WHERE w.expires_at<={now} LIMIT {limit}) \
         LIMIT {limit}) d \
         STRAIGHT_JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) ON r.id=d.id"
    )
}

pub(super) async fn owners(store: &Inner, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let found = select(&mut lease, &owners_script(page), "listing owners").await?;
    found.iter().map(rows::owner).collect()
}

pub(super) fn owners_script(page: &Page<Owner>) -> Script {
    // No owner is the empty text, and NULL is beyond nothing.
    let after = page.after.as_ref().map_or("", Owner::as_str);
    Script::of(format_args!(
        "SELECT DISTINCT r.owner FROM lockhouse_permit_request r FORCE INDEX (owned) \
         WHERE r.state='ACQUIRED' AND r.owner>{} ORDER BY r.owner LIMIT {}",
        Text(after),
        page.limit
    ))
}

/// `age` before `now`, but not before there are times as literals.
pub(super) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let before = now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH);
    before.max(Timestamp::UNIX_EPOCH)
}
