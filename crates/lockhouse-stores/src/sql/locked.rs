//! Finds the rows that other transactions keep locked.
//!
//! A row that exists and that `SKIP LOCKED` skips is locked. There are two looks, so that a briefly
//! locked row does not count.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::store::Error;
use lockhouse_core::{ExternalId, Footprint, Owner, SemaphoreName};
use tokio::time::sleep;

use super::dialect::{ByKey, Dialect};
use super::driver::RowOf;
use super::pool::Lease;
use super::read::READ;
use super::rows;
use super::script::{Script, list};
use super::{Inner, gap};

/// The time between two looks.
const BETWEEN: Duration = Duration::from_millis(20);

const CONTEXT: &str = "looking for locked rows";

/// The rows among `rows` that are locked at both looks, and the gaps among them that are locked.
pub(crate) async fn locked<D: Dialect>(
    store: &Inner<D>,
    rows: &Footprint,
) -> Result<Footprint, Error> {
    let mut locked = Footprint::default();
    for gap in &rows.gaps {
        if gap::is_locked(store, gap).await? {
            locked.gaps.insert(gap.clone());
        }
    }
    let mut lease = store.pool.lend(READ).await?;
    locked.extend(still_locked(&mut lease, rows).await?);
    Ok(locked)
}

/// [`locked`] on the caller's connection.
pub(crate) async fn still_locked<D: Dialect>(
    lease: &mut Lease<D>,
    rows: &Footprint,
) -> Result<Footprint, Error> {
    let locked = look(lease, rows).await?;
    if locked.is_empty() {
        return Ok(locked);
    }
    sleep(BETWEEN).await;
    look(lease, &locked).await
}

async fn look<D: Dialect>(lease: &mut Lease<D>, rows: &Footprint) -> Result<Footprint, Error> {
    if rows.semaphores.is_empty() && rows.requests.is_empty() && rows.owners.is_empty() {
        return Ok(Footprint::default());
    }
    let script = script::<D>(rows);
    let answers = lease.run(&script, CONTEXT).await?;
    // The first is that of BEGIN, the last that of ROLLBACK.
    let mut answers = answers.into_iter().skip(1);
    let mut skipped = || -> Result<BTreeSet<String>, Error> {
        let free = texts::<D>(answers.next().unwrap_or_default())?;
        let all = texts::<D>(answers.next().unwrap_or_default())?;
        Ok(all.difference(&free).cloned().collect())
    };
    let mut locked = Footprint::default();
    if !rows.semaphores.is_empty() {
        let skipped = skipped()?;
        let names = rows.semaphores.iter();
        let names = names.filter(|name| skipped.contains(name.as_str()));
        locked.semaphores = names.cloned().collect();
    }
    if !rows.requests.is_empty() {
        let skipped = skipped()?;
        let ids = rows.requests.iter();
        let ids = ids.filter(|id| skipped.contains(id.as_str()));
        locked.requests = ids.cloned().collect();
    }
    if !rows.owners.is_empty() {
        let skipped = skipped()?;
        let owners = rows.owners.iter();
        let owners = owners.filter(|owner| skipped.contains(owner.as_str()));
        locked.owners = owners.cloned().collect();
    }
    Ok(locked)
}

/// For each kind of row in `rows`: the keys of the free ones, and then of all.
fn script<D: Dialect>(rows: &Footprint) -> Script {
    let mut script = Script::of(D::BEGIN);
    let mut add = |by_key: &ByKey, keys: Vec<&str>| {
        if keys.is_empty() {
            return;
        }
        let ByKey { table, key } = by_key;
        let keys = list(keys.into_iter().map(D::text));
        let all = format!("SELECT {key} FROM {table} WHERE {key} IN ({keys})");
        script.add(format_args!("{all} FOR UPDATE SKIP LOCKED"));
        script.add(all);
    };
    let [semaphores, requests, owners] = &D::BY_KEY;
    add(
        semaphores,
        rows.semaphores.iter().map(SemaphoreName::as_str).collect(),
    );
    add(
        requests,
        rows.requests.iter().map(ExternalId::as_str).collect(),
    );
    add(owners, rows.owners.iter().map(Owner::as_str).collect());
    script.add("ROLLBACK");
    script
}

fn texts<D: Dialect>(found: Vec<RowOf<D>>) -> Result<BTreeSet<String>, Error> {
    found
        .iter()
        .map(|row| Ok(rows::text(row)?.unwrap_or_default().to_owned()))
        .collect()
}
