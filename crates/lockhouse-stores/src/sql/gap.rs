//! Gaps between the ids of requests in which another transaction keeps anybody from making one.
//!
//! MySQL and MariaDB lock such a gap for a transaction at REPEATABLE READ that reads an id which
//! does not exist with `FOR SHARE` or `FOR UPDATE`. An INSERT into the gap waits, and no SELECT can
//! see why: `SKIP LOCKED` skips rows, not gaps. So the session notes at which row its INSERT was, and
//! only another INSERT shows that the gap is free again.
//!
//! The gap goes from the id before to the id after. Rows that the server has not purged yet may make
//! the locked one smaller.

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{ExternalId, Footprint, Gap, Timestamp};

use super::Inner;
use super::dialect::Dialect;
use super::error::servers_word;
use super::load::RowIds;
use super::pool::Lease;
use super::read::READ;
use super::rows;
use super::script::Script;

const CONTEXT: &str = "looking for a locked gap";

/// The id at whose row the INSERT of `ids` failed, where the server says so.
pub(crate) async fn refused<D: Dialect>(lease: &mut Lease<D>, ids: &RowIds) -> Option<ExternalId> {
    if D::REFUSED.is_empty() {
        return None;
    }
    let answers = lease.run(&Script::of(D::REFUSED), CONTEXT).await.ok()?;
    let row = answers.first()?.first()?;
    let noted: u64 = rows::number(row).ok()?;
    let mut ids = ids.requests.iter();
    let (refused, _) = ids.find(|(_, id)| **id == noted)?;
    Some(refused.clone())
}

/// The gap in which `refused` would be. If another transaction has inserted `refused` itself and not
/// committed yet, it is the only id that cannot be made.
pub(crate) async fn around<D: Dialect>(
    lease: &mut Lease<D>,
    refused: ExternalId,
) -> Result<Footprint, Error> {
    let ByIdOrder { row, ends } = ByIdOrder::of::<D>(&refused);
    let gap = match lease.run(&row, CONTEXT).await {
        Err(error) if error.kind() == Kind::Locked => Gap::of(refused),
        Err(error) => return Err(error),
        Ok(_) => {
            let mut ends = lease.run(&ends, CONTEXT).await?.into_iter();
            let mut next = || -> Result<Option<ExternalId>, Error> {
                let found = ends.next().unwrap_or_default();
                found.first().map(rows::external_id).transpose()
            };
            let (after, before) = (next()?, next()?);
            Gap::between(refused, after, before)
        }
    };
    Ok(Footprint {
        gaps: [gap].into(),
        ..Footprint::default()
    })
}

/// Whether nobody can make a request in `gap`. It waits for up to a second to find out.
pub(crate) async fn is_locked<D: Dialect>(store: &Inner<D>, gap: &Gap) -> Result<bool, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let mut id = store.ids.take(1, Timestamp::default());
    let mut script = Script::of(D::BEGIN);
    script.add(format_args!(
        "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
         VALUES ({},{},'RELEASED',{})",
        id.next().unwrap_or_default(),
        D::text(gap.refused().as_str()),
        D::NOW,
    ));
    script.add("ROLLBACK");
    match lease.run(&script, CONTEXT).await {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == Kind::Locked => Ok(true),
        // Somebody has made it.
        Err(error) if servers_word(&error).is_some_and(|error| error.is_unique_violation()) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Looks at an id and its neighbours.
struct ByIdOrder {
    row: Script,
    ends: Script,
}

impl ByIdOrder {
    fn of<D: Dialect>(id: &ExternalId) -> Self {
        let [_, requests, _] = &D::BY_KEY;
        let (table, key) = (requests.table, requests.key);
        let id = D::text(id.as_str());
        let mut row = Script::of(D::BEGIN);
        row.add(format_args!(
            "SELECT {key} FROM {table} WHERE {key}={id} FOR UPDATE NOWAIT"
        ));
        row.add("ROLLBACK");
        let mut ends = Script::of(format_args!(
            "SELECT {key} FROM {table} WHERE {key}<{id} ORDER BY {key} DESC LIMIT 1"
        ));
        ends.add(format_args!(
            "SELECT {key} FROM {table} WHERE {key}>{id} ORDER BY {key} LIMIT 1"
        ));
        Self { row, ends }
    }
}
