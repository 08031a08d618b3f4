//! A batch: load under locks, decide, save.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, Kind};
use lockhouse_core::{
    Command, Definition, Loaded, Outcome, Semaphore, SemaphoreName, Timestamp, decide,
};

use super::Inner;
use super::error::{code, server_code};
use super::load::{self, Snapshot};
use super::pool::Lease;
use super::save;
use super::sql::{Maybe, Script, Text, Time, list};

/// How long one call may work. A lock wait is ended by the server after 5 s.
pub(super) const WORK: Duration = Duration::from_secs(7);

/// How often a batch is loaded until all that it touches is known and there: as it came, with what
/// its requests hold, with the rows that were made ready; and once more, if others did something
/// in between.
const LOADS: usize = 4;

const CONTEXT: &str = "doing a batch";

/// Does `batch` in one transaction.
pub(super) async fn transact(store: &Inner, batch: &Batch) -> Result<Vec<Outcome>, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let outcomes = load_decide_save(&mut lease, store, batch).await;
    lease.roll_back().await;
    outcomes
}

/// Leaves the transaction open when there is nothing to save, or something goes wrong.
async fn load_decide_save(
    lease: &mut Lease,
    store: &Inner,
    batch: &Batch,
) -> Result<Vec<Outcome>, Error> {
    let Snapshot { loaded, ids } = load(lease, store.locks, batch).await?;
    let now = loaded.now;
    let decision = decide(loaded, &batch.commands);
    if decision.changes.is_empty() {
        return Ok(decision.outcomes);
    }
    let script = save::script(&decision.changes, &ids, &store.ids, now)?;
    match lease.run(&script, CONTEXT).await {
        Ok(_) => Ok(decision.outcomes),
        Err(error) => {
            if server_code(&error) == Some(code::DUP_ENTRY) {
                store.ids.redraw();
            }
            Err(error)
        }
    }
}

/// Loads all that `batch` touches, and leaves it locked.
async fn load(lease: &mut Lease, locks: bool, batch: &Batch) -> Result<Snapshot, Error> {
    let mut footprint = batch.footprint.clone();
    for _ in 0..LOADS {
        let script = load::script(&footprint, locks);
        let answers = lease.run(&script, CONTEXT).await?;
        let snapshot = load::snapshot(&footprint, answers)?;
        let grown = footprint.grow(&snapshot.loaded);
        let missing = missing(&batch.commands, &snapshot.loaded);
        if !grown && missing.is_empty() {
            return Ok(snapshot);
        }
        lease.roll_back().await;
        if !missing.is_empty() {
            let script = make_ready(&missing, snapshot.loaded.now);
            lease.run(&script, CONTEXT).await?;
        }
    }
    Err(Error::new(
        Kind::Conflict,
        format!("{CONTEXT}: what it touches keeps changing"),
    ))
}

/// The names that `commands` create and that have no row yet.
fn missing<'a>(commands: &'a [Command], loaded: &Loaded) -> BTreeSet<&'a SemaphoreName> {
    let created = commands.iter().filter_map(|command| match command {
        Command::Define(Definition {
            name,
            must_exist: false,
            expected: None,
            ..
        }) => Some(name),
        _ => None,
    });
    created
        .filter(|name| !loaded.semaphores.contains_key(*name))
        .collect()
}

/// Makes rows ready, in a transaction of its own: two that lock the same missing row and then
/// insert it would deadlock. Whoever comes second finds the row there.
fn make_ready(names: &BTreeSet<&SemaphoreName>, now: Timestamp) -> Script {
    let values = names.iter().map(|name| {
        let row = Semaphore::made_ready((*name).clone(), now);
        format!(
            "({},{},{},{},{},{},{})",
            Text(row.name.as_str()),
            row.capacity,
            row.in_use,
            row.fence,
            Time(row.created_at),
            Time(row.updated_at),
            Maybe(row.deleted_at.map(Time)),
        )
    });
    Script::of(format_args!(
        "INSERT IGNORE INTO lockhouse_semaphore \
         (name,capacity,in_use,fence,created_at,updated_at,deleted_at) VALUES {}",
        list(values)
    ))
}
