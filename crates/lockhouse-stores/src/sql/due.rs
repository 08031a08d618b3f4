//! What is due to end. Like the other reads, this locks nothing.

use std::time::Duration;

use lockhouse_core::store::{Due, Error};
use lockhouse_core::{Owner, Request, SemaphoreName, Timestamp};

use super::Inner;
use super::dialect::Dialect;
use super::read::{READ, clock, requests};

/// A [`Due`] that owns what it names.
#[derive(Debug)]
pub enum Wanted {
    /// Their time has passed, or their owner's session has.
    Lapsed {
        /// Only those that hold permits of one of these.
        on: Option<Vec<SemaphoreName>>,
    },
    /// They have no time to live and have been held for so long.
    Stale {
        /// How long.
        age: Duration,
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
            Due::Stale { age } => Wanted::Stale { age },
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

/// `age` before `now`, but not before there are times as literals.
pub(crate) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let before = now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH);
    before.max(Timestamp::UNIX_EPOCH)
}
