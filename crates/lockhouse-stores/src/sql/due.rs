//! Finds due requests. Like the other reads, this locks nothing.

use std::time::Duration;

use lockhouse_core::store::{Due, Error, Page, Stale};
use lockhouse_core::{Owner, Request, SemaphoreName, Timestamp};

use super::Inner;
use super::dialect::{Dialect, Look};
use super::pool::Lease;
use super::read::{self, READ, clock, select};
use super::rows;
use super::script::Script;
use crate::lapsed::FEW_SESSIONS;
use crate::time::before;

const CONTEXT: &str = "finding due requests";

/// An owned [`Due`].
#[derive(Debug)]
pub(crate) enum Wanted {
    /// All requests whose TTL has passed, or whose owner's session has lapsed.
    Lapsed,
    /// The same, but only requests that hold permits of one of these semaphores.
    LapsedOn(Vec<SemaphoreName>),
    /// All requests of this owner.
    OwnedBy(Owner),
}

impl From<Due<'_>> for Wanted {
    fn from(due: Due<'_>) -> Self {
        match due {
            Due::Lapsed { on: None } => Wanted::Lapsed,
            Due::Lapsed { on: Some(on) } => Wanted::LapsedOn(on.to_vec()),
            Due::OwnedBy(owner) => Wanted::OwnedBy(owner.clone()),
        }
    }
}

pub(crate) async fn due<D: Dialect>(
    store: &Inner<D>,
    wanted: &Wanted,
    limit: u32,
) -> Result<Vec<Request>, Error> {
    if matches!(wanted, Wanted::LapsedOn(on) if on.is_empty()) {
        return Ok(Vec::new());
    }
    let mut lease = store.pool.lend(READ).await?;
    match wanted {
        Wanted::Lapsed => {
            let now = clock(&mut lease, CONTEXT).await?;
            requests(&mut lease, &D::lapsed(now, limit), CONTEXT).await
        }
        Wanted::LapsedOn(on) => lapsed_on(&mut lease, store, on, limit).await,
        Wanted::OwnedBy(owner) => requests(&mut lease, &D::owned_by(owner, limit), CONTEXT).await,
    }
}

async fn requests<D: Dialect>(
    lease: &mut Lease<D>,
    script: &Script,
    context: &str,
) -> Result<Vec<Request>, Error> {
    let found = read::requests(lease, script, context).await?;
    Ok(found.into_iter().map(|(_, request)| request).collect())
}

/// The ids of the semaphores and the time are literals in the second packet, since servers build
/// index ranges only from literals.
async fn lapsed_on<D: Dialect>(
    lease: &mut Lease<D>,
    store: &Inner<D>,
    on: &[SemaphoreName],
    limit: u32,
) -> Result<Vec<Request>, Error> {
    let semaphores = select(lease, &D::look(on, FEW_SESSIONS + 1), CONTEXT).await?;
    let Some(first) = semaphores.first() else {
        return Ok(Vec::new());
    };
    let (now, sessions) = rows::clock_and_count(first)?;
    let ids = semaphores.iter().map(rows::number);
    let ids = ids.collect::<Result<Vec<_>, Error>>()?;
    let few = sessions <= FEW_SESSIONS;
    let left_out = store.looks.left_out(&ids, now).filter(|_| !few);
    let look = Look {
        on: &ids,
        left_out: left_out.unwrap_or(Timestamp::UNIX_EPOCH),
    };
    let found = requests(lease, &D::lapsed_on(&look, now, limit), CONTEXT).await?;
    if found.is_empty() && left_out.is_none() {
        store.looks.found_nothing(&ids, now);
    }
    Ok(found)
}

pub(crate) async fn stale<D: Dialect>(
    store: &Inner<D>,
    age: Duration,
    page: &Page<Timestamp>,
) -> Result<Stale, Error> {
    let Some(last) = page.limit.checked_sub(1) else {
        return Ok(Stale::default());
    };
    let context = "finding stale requests";
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
