//! A batch: load under locks, decide, save.
//!
//! An id that is only asked for is mostly new, and then reading it finds nothing. So it is taken for
//! new at first. If that is wrong the unique key on ids says so before anything is committed; and where
//! there is nothing to write for it, as it is refused, it is looked up before that is believed. Then
//! the batch begins again, with all of them loaded.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Error, Kind};
use lockhouse_core::{
    Changes, Command, ExternalId, Footprint, Loaded, Outcome, Semaphore, SemaphoreName, decide,
};
use sqlx::error::DatabaseError;

use super::Inner;
use super::dialect::Dialect;
use super::error::{alone, servers_word};
use super::known::Known;
use super::load::{self, RowIds, Snapshot};
use super::locked;
use super::pool::{CALL, Lease};
use super::script::Script;

/// How long one call may work.
pub(crate) const WORK: Duration = Duration::from_secs(7);

/// How often a batch is loaded until all that it touches is known and there: as it came, with what
/// its requests hold, with the rows that were made ready; and once more, if others did something
/// in between.
const LOADS: usize = 4;

const CONTEXT: &str = "doing a batch";

/// Does `batch` in one transaction.
pub(crate) async fn transact<D: Dialect>(
    store: &Inner<D>,
    batch: &Batch,
) -> Result<Vec<Outcome>, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let begun = Instant::now();
    let mut footprint = batch.footprint.clone();
    let new = only_asked_for(&batch.commands);
    let mut outcomes = load_decide_save(&mut lease, store, batch, &mut footprint, &new).await;
    lease.roll_back().await;
    let is_known =
        |error: &Error| servers_word(error).is_some_and(DatabaseError::is_unique_violation);
    if matches!(&outcomes, Ok(None)) || matches!(&outcomes, Err(error) if is_known(error)) {
        lease.extend(WORK.min(CALL.saturating_sub(begun.elapsed())));
        let new = BTreeSet::new();
        outcomes = load_decide_save(&mut lease, store, batch, &mut footprint, &new).await;
        lease.roll_back().await;
    }
    match outcomes {
        Ok(outcomes) => Ok(outcomes.unwrap_or_default()),
        Err(error) if error.kind() == Kind::Locked => {
            let locked = locked::still_locked(&mut lease, &footprint).await?;
            Err(error.while_locked(locked))
        }
        Err(error) if batch.commands.len() == 1 => Err(alone(error)),
        Err(error) => Err(error),
    }
}

/// Takes the ids of `new` for such; none if one of them is not. Leaves the transaction open when
/// there is nothing to save, or something goes wrong. The `footprint` grows to all that was to be locked.
async fn load_decide_save<D: Dialect>(
    lease: &mut Lease<D>,
    store: &Inner<D>,
    batch: &Batch,
    footprint: &mut Footprint,
    new: &BTreeSet<&ExternalId>,
) -> Result<Option<Vec<Outcome>>, Error> {
    let Snapshot { loaded, mut ids } = load(lease, store, batch, footprint, new).await?;
    let mut now = loaded.now;
    let mut decision = decide(loaded, &batch.commands);
    for _ in 0..LOADS {
        let created = created(&decision.changes, &ids);
        if created.is_empty() {
            break;
        }
        // Their rows are made ready in a transaction of their own, as those of definitions are.
        lease.roll_back().await;
        lease.run(&D::make_ready(&created), CONTEXT).await?;
        let again = load(lease, store, batch, footprint, new).await?;
        ids = again.ids;
        now = again.loaded.now;
        decision = decide(again.loaded, &batch.commands);
    }
    let refused = refused(&batch.commands, &decision.outcomes, new);
    if !refused.is_empty() {
        let known = D::known(&refused);
        // Nobody waits for the locks of a transaction that has nothing to save.
        let script = if decision.changes.is_empty() {
            Script::after_rollback(known)
        } else {
            Script::within(known)
        };
        let answers = lease.run(&script, CONTEXT).await?;
        if answers.iter().any(|rows| !rows.is_empty()) {
            return Ok(None);
        }
    }
    if decision.changes.is_empty() {
        return Ok(Some(decision.outcomes));
    }
    let granted = &decision.changes.granted;
    let new = granted.iter().map(|request| request.external_id.clone());
    ids.requests
        .extend(new.zip(store.ids.take(granted.len(), now)));
    let script = D::save(&decision.changes, &ids)?;
    match lease.run(&script, CONTEXT).await {
        Ok(_) => {
            remember(&store.known, &decision.changes, &ids);
            Ok(Some(decision.outcomes))
        }
        Err(error) => {
            if servers_word(&error).is_some_and(DatabaseError::is_unique_violation) {
                store.ids.redraw();
            }
            Err(error.after_deciding(decision.outcomes))
        }
    }
}

/// The semaphores that are to be written and have no row yet, as a template made them.
fn created(changes: &Changes, ids: &RowIds) -> Vec<Semaphore> {
    let written = changes.semaphores.iter();
    let new = written.filter(|semaphore| !ids.semaphores.contains_key(&semaphore.name));
    let ready = new.map(|new| Semaphore::made_ready(new.name.clone(), new.created_at));
    ready.collect()
}

/// The ids that `commands` ask for and do nothing else about.
fn only_asked_for(commands: &[Command]) -> BTreeSet<&ExternalId> {
    let named = |is_ask: bool| {
        let commands = commands
            .iter()
            .filter(move |command| command.ask().is_some() == is_ask);
        commands.filter_map(Command::external_id)
    };
    let mut asked_for: BTreeSet<_> = named(true).collect();
    for external_id in named(false) {
        asked_for.remove(external_id);
    }
    asked_for
}

/// Those of the `new` ids that were refused what they asked for.
fn refused<'a>(
    commands: &'a [Command],
    outcomes: &[Outcome],
    new: &BTreeSet<&ExternalId>,
) -> BTreeSet<&'a ExternalId> {
    let refused = commands
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| outcome.is_err());
    let ids = refused.filter_map(|(command, _)| command.external_id());
    ids.filter(|external_id| new.contains(external_id))
        .collect()
}

/// Loads all that `batch` touches but the `new` ids, and leaves it locked.
async fn load<D: Dialect>(
    lease: &mut Lease<D>,
    store: &Inner<D>,
    batch: &Batch,
    footprint: &mut Footprint,
    new: &BTreeSet<&ExternalId>,
) -> Result<Snapshot, Error> {
    for _ in 0..LOADS {
        let mut there = footprint.clone();
        there.requests.retain(|id| !new.contains(id));
        let script = D::load(&there);
        let answers = lease.run(&script, CONTEXT).await?;
        let mut snapshot = load::snapshot(&there, answers)?;
        add_permits(lease, &store.known, &mut snapshot).await?;
        // What it did not name, or named before it was there.
        let lacks = footprint.grow(&batch.commands, &snapshot.loaded);
        let missing = missing(&batch.commands, &snapshot.loaded);
        if !lacks && missing.is_empty() {
            return Ok(snapshot);
        }
        lease.roll_back().await;
        if !missing.is_empty() {
            let now = snapshot.loaded.now;
            let ready = missing.into_iter().cloned();
            let ready = ready.map(|name| Semaphore::made_ready(name, now));
            let script = D::make_ready(&ready.collect::<Vec<_>>());
            lease.run(&script, CONTEXT).await?;
        }
    }
    Err(Error::new(
        Kind::Conflict,
        format!("{CONTEXT}: what it touches keeps changing"),
    ))
}

/// Gives each of the requests that were loaded its permits.
async fn add_permits<D: Dialect>(
    lease: &mut Lease<D>,
    known: &Known,
    snapshot: &mut Snapshot,
) -> Result<(), Error> {
    let mut unknown = Vec::new();
    for (external_id, request) in &mut snapshot.loaded.requests {
        let id = snapshot.ids.request(external_id)?;
        match known.permits(id) {
            Some(permits) => request.permits = permits,
            None => unknown.push(id),
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let answers = lease.run(&D::permits(&unknown), CONTEXT).await?;
    let mut permits = load::permits(answers.first().map_or(&[], Vec::as_slice), 0)?;
    for (external_id, request) in &mut snapshot.loaded.requests {
        let id = snapshot.ids.request(external_id)?;
        if let Some(permits) = permits.remove(&id) {
            known.insert(id, permits.clone());
            request.permits = permits;
        }
    }
    Ok(())
}

/// Takes note of what was saved.
fn remember(known: &Known, changes: &Changes, ids: &RowIds) {
    for request in &changes.granted {
        if let Ok(id) = ids.request(&request.external_id) {
            known.insert(id, request.permits.clone());
        }
    }
    for ended in &changes.ended {
        if let Ok(id) = ids.request(&ended.external_id) {
            known.remove(id);
        }
    }
}

/// The names that `commands` make and that have no row yet.
///
/// Their rows are made ready in a transaction of their own: two that lock the same missing row and
/// then insert it would deadlock. Whoever comes second finds the row there.
fn missing<'a>(commands: &'a [Command], loaded: &Loaded) -> BTreeSet<&'a SemaphoreName> {
    let made = commands.iter().filter_map(Command::makes);
    made.filter(|name| !loaded.semaphores.contains_key(*name))
        .collect()
}
