//! Locked gaps: gaps between rows, into which another transaction prevents all inserts.
//!
//! MySQL and MariaDB lock such a gap for a transaction at REPEATABLE READ that reads a key which
//! does not exist with `FOR SHARE` or `FOR UPDATE`. An INSERT into the gap waits, and no SELECT can
//! see why: `SKIP LOCKED` skips rows, not gaps. So a script says which of its statements
//! [inserts](Inserts) what, the session notes at which row such a statement was, and only another
//! INSERT shows that the gap is free again.
//!
//! The gap goes from the key before to the key after. Rows that the server has not purged yet may
//! make the locked one smaller.

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{Footprint, Gap, Key, OwnerSession, SemaphoreRow, Timestamp};

use super::Inner;
use super::dialect::{ByKey, Dialect};
use super::error::servers_word;
use super::pool::Lease;
use super::read::READ;
use super::row_ids::RowIds;
use super::rows;
use super::script::{Inserts, Script};
use super::values;

const CONTEXT: &str = "looking for a locked gap";

/// The key of the row at which the last run of `script` failed, if it failed at an INSERT and the
/// server tells the row. `ids` and `sessions` are the requests and sessions that the script inserts.
pub(crate) async fn refused<D: Dialect>(
    lease: &mut Lease<D>,
    script: &Script,
    ids: &RowIds,
    sessions: &[OwnerSession],
) -> Option<Key> {
    match script.inserts(lease.finished())? {
        Inserts::One(key) => Some(key.clone()),
        Inserts::Requests => {
            let noted = noted(lease).await?;
            let mut ids = ids.requests.iter();
            let (refused, _) = ids.find(|(_, id)| **id == noted)?;
            Some(Key::Request(refused.clone()))
        }
        Inserts::Sessions => {
            let at = usize::try_from(noted(lease).await?).ok()?;
            Some(Key::Session(sessions.get(at)?.owner.clone()))
        }
    }
}

async fn noted<D: Dialect>(lease: &mut Lease<D>) -> Option<u64> {
    let answers = lease.run(&Script::of(D::NOTED), CONTEXT).await.ok()?;
    rows::number(answers.first()?.first()?).ok()
}

/// The gap into which a row of `refused` could not be inserted. If another transaction has inserted that very row and
/// not committed yet, the gap is only this key.
pub(crate) async fn around<D: Dialect>(
    lease: &mut Lease<D>,
    refused: Key,
) -> Result<Footprint, Error> {
    let gap = match lease.run(&in_order::<D>(&refused), CONTEXT).await {
        Err(error) if error.kind() == Kind::Locked => Gap::of(refused),
        Err(error) => return Err(error),
        Ok(ends) => {
            let mut ends = ends.into_iter();
            let mut next = || -> Result<Option<String>, Error> {
                let found = ends.next().unwrap_or_default();
                let Some(row) = found.first() else {
                    return Ok(None);
                };
                Ok(rows::text(row)?.map(str::to_owned))
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

/// Whether no row can be inserted into `gap`. It waits for up to two seconds to find out.
pub(crate) async fn is_locked<D: Dialect>(store: &Inner<D>, gap: &Gap) -> Result<bool, Error> {
    let is_locked = try_insert(store, gap).await?;
    if !is_locked {
        // Perhaps it was never locked, and the INSERT was only slow.
        store.pool.patience().grow();
    }
    Ok(is_locked)
}

/// Whether an INSERT of the refused key of `gap` met a lock.
async fn try_insert<D: Dialect>(store: &Inner<D>, gap: &Gap) -> Result<bool, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let mut script = Script::of(D::BEGIN);
    script.add(insert(store, gap.refused()));
    script.add("ROLLBACK");
    match lease.run(&script, CONTEXT).await {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == Kind::Locked => Ok(true),
        // Another transaction has inserted the row, so the gap is free.
        Err(error) if servers_word(&error).is_some_and(|error| error.is_unique_violation()) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Inserts a row of `key`, to be rolled back.
fn insert<D: Dialect>(store: &Inner<D>, key: &Key) -> String {
    match key {
        Key::Semaphore(name) => format!(
            "INSERT INTO lockhouse_semaphore \
             (name,capacity,in_use,fence,created_at,updated_at,deleted_at) VALUES {}",
            values::new_semaphores::<D>(&[SemaphoreRow::undefined(
                name.clone(),
                Timestamp::default()
            )])
        ),
        Key::Request(id) => format!(
            "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at) \
             VALUES ({},{},'RELEASED',{})",
            store
                .ids
                .take(1, Timestamp::default())
                .next()
                .unwrap_or_default(),
            D::text(id.as_str()),
            D::NOW,
        ),
        Key::Session(owner) => format!(
            "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES ({},1,{})",
            D::text(owner.as_str()),
            D::NOW,
        ),
    }
}

/// Selects the keys before and after that of `refused`, and fails if another transaction has locked its row.
fn in_order<D: Dialect>(refused: &Key) -> Script {
    let [semaphores, requests, owners] = &D::BY_KEY;
    let ByKey { table, key } = match refused {
        Key::Semaphore(_) => semaphores,
        Key::Request(_) => requests,
        Key::Session(_) => owners,
    };
    let refused = D::text(refused.as_str());
    let mut script = Script::of(format_args!(
        "SELECT {key} FROM {table} WHERE {key}<{refused} ORDER BY {key} DESC LIMIT 1"
    ));
    script.add(format_args!(
        "SELECT {key} FROM {table} WHERE {key}>{refused} ORDER BY {key} LIMIT 1"
    ));
    script.add(D::BEGIN);
    script.add(format_args!(
        "SELECT {key} FROM {table} WHERE {key}={refused} FOR UPDATE NOWAIT"
    ));
    script.add("ROLLBACK");
    script
}
