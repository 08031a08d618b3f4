//! What is due to end. Like the other reads, this locks nothing.

use std::time::Duration;

use lockhouse_core::store::{Due, Error, Page, Stale};
use lockhouse_core::{Owner, Request, SemaphoreName, Timestamp};

use super::Inner;
use super::dialect::Dialect;
use super::read::{READ, clock, requests, select};
use super::rows;

/// A [`Due`] that owns what it names.
#[derive(Debug)]
pub enum Wanted {
    /// Their time has passed, or their owner's session has.
    Lapsed {
        /// Only those that hold permits of one of these.
        on: Option<Vec<SemaphoreName>>,
    },
    /// They are this owner's.
    OwnedBy(Owner),
}

impl From<Due<'_>> for Wanted {
    fn from(due: Due<'_>) -> Self {
        match due {
            Due::Lapsed { on } => Wanted::Lapsed {
                on: on.map(<[_]>::to_vec),
            },
            Due::OwnedBy(owner) => Wanted::OwnedBy(owner.clone()),
        }
    }
}

pub(crate) async fn due<D: Dialect>(
    store: &Inner<D>,
    wanted: &Wanted,
    limit: u32,
) -> Result<Vec<Request>, Error> {
    if matches!(wanted, Wanted::Lapsed { on: Some(on) } if on.is_empty()) {
        return Ok(Vec::new());
    }
    let context = "looking for what is due";
    let mut lease = store.pool.lend(READ).await?;
    let now = clock(&mut lease, context).await?;
    requests(&mut lease, &D::due(wanted, now, limit), context).await
}

pub(crate) async fn stale<D: Dialect>(
    store: &Inner<D>,
    age: Duration,
    page: &Page<Timestamp>,
) -> Result<Stale, Error> {
    let Some(last) = page.limit.checked_sub(1) else {
        return Ok(Stale::default());
    };
    let context = "looking for what is stale";
    let mut lease = store.pool.lend(READ).await?;
    let now = clock(&mut lease, context).await?;
    let after = page.after.unwrap_or(Timestamp::UNIX_EPOCH);
    let cutoff = before(now, age);
    let last = select(&mut lease, &D::last_of_age(after, cutoff, last), context).await?;
    let looked_to = last.first().map(rows::moment).transpose()?;
    let to = looked_to.unwrap_or(cutoff);
    let requests = requests(&mut lease, &D::stale(after, to, now), context).await?;
    Ok(Stale {
        requests,
        looked_to,
    })
}

/// `age` before `now`, but not before there are times as literals.
pub(crate) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let before = now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH);
    before.max(Timestamp::UNIX_EPOCH)
}
