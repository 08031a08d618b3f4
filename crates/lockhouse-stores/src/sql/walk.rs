//! Live requests, page by page: first the entries of an index, then the rows of those that are on the page.
//!
//! The two statements see two moments. A request that ends in between is left out. A request that
//! is live throughout is on the page, since neither its place in the index nor its permits change.

use std::collections::HashMap;

use lockhouse_core::store::{Cursor, Error, Held, Holders, Page};
use lockhouse_core::{Request, SemaphoreName};

use super::Inner;
use super::dialect::Dialect;
use super::pool::Lease;
use super::read::{READ, find, requests, select};
use super::rows;
use super::script::Script;
use crate::walk::Walk;

const CONTEXT: &str = "listing holders";

pub(crate) async fn holders<D: Dialect>(
    store: &Inner<D>,
    of: &Holders,
    page: &Page<Cursor>,
) -> Result<Held, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let on = match &of.on {
        None => None,
        Some(name) => match semaphore_id(&mut lease, name).await? {
            None => return Ok(Held::default()),
            found => found,
        },
    };
    let walk = Walk::new(on, page);
    let mut script = Script::new();
    for stretch in walk.stretches() {
        script.add(D::stretch(of.owner.as_ref(), stretch));
    }
    let answers = lease.run(&script, CONTEXT).await?;
    let entries = answers.iter().map(|found| {
        let entries = found.iter().map(rows::entry);
        entries.collect::<Result<Vec<_>, Error>>()
    });
    let (ids, next) = walk.page(entries.collect::<Result<Vec<_>, Error>>()?);
    let requests = live(&mut lease, &ids).await?;
    Ok(Held { requests, next })
}

async fn semaphore_id<D: Dialect>(
    lease: &mut Lease<D>,
    name: &SemaphoreName,
) -> Result<Option<u64>, Error> {
    let found = select(lease, &find::<D>(std::slice::from_ref(name)), CONTEXT).await?;
    let id = found.first().map(|row| Ok(rows::semaphore(row)?.0));
    id.transpose()
}

/// The requests among `ids` that are still live, in that order.
async fn live<D: Dialect>(lease: &mut Lease<D>, ids: &[u64]) -> Result<Vec<Request>, Error> {
    let mut found = Vec::new();
    let mut left = vec![ids];
    while let Some(ids) = left.pop().filter(|ids| !ids.is_empty()) {
        let script = D::live(ids);
        if ids.len() > 1 && !lease.takes(&script) {
            let (first, second) = ids.split_at(ids.len() / 2);
            left.extend([second, first]);
            continue;
        }
        found.extend(requests(lease, &script, CONTEXT).await?);
    }
    let places: HashMap<_, _> = ids.iter().zip(0..).collect();
    found.sort_unstable_by_key(|(id, _)| places.get(id).copied().unwrap_or(ids.len()));
    Ok(found.into_iter().map(|(_, request)| request).collect())
}
