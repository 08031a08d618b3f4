//! Tests of SQLite's particulars. The conformance suite has the tests for all stores.

mod data;
mod locking;
mod migrating;
mod opening;
mod plans;
mod purge;

use std::path::PathBuf;

use lockhouse_core::store::{Batch, Error, Holders, Migration as _, Page, Store};
use lockhouse_core::{
    Ask, Capacity, Cause, Command, Count, Definition, ExternalId, Outcome, Owner, Reply, Request,
    SemaphoreName, Ttl,
};
use rusqlite::Connection;
use tempfile::TempDir;

use super::Sqlite;

/// A separate folder, and the file in it.
struct Place {
    folder: TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("permits.db");
        Self { folder, file }
    }

    /// A place with a schema, and a store on it.
    async fn migrated() -> (Self, Sqlite) {
        let place = Self::new();
        let store = place.store();
        store.migrate().await.unwrap();
        (place, store)
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(&format!("sqlite:{}", self.file.display())).unwrap()
    }

    /// A connection that is not the store's.
    fn connect(&self) -> Connection {
        Connection::open(&self.file).unwrap()
    }
}

fn name(text: &str) -> SemaphoreName {
    SemaphoreName::parse(text).unwrap()
}

fn id(text: &str) -> ExternalId {
    ExternalId::parse(text).unwrap()
}

fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

fn define(semaphore: &str, capacity: u32) -> Command {
    Command::Define(Definition::new(
        name(semaphore),
        Capacity::new(capacity).unwrap(),
    ))
}

fn acquire(external_id: &str, semaphore: &str) -> Command {
    let mut ask = Ask::new(id(external_id), [(name(semaphore), Count::ONE)]).unwrap();
    ask.ttl = Some(Ttl::from_ms(60_000).unwrap());
    Command::acquire(ask)
}

/// With an owner, and without a time to live.
fn acquire_for(whose: &str, external_id: &str, semaphore: &str) -> Command {
    let mut ask = Ask::new(id(external_id), [(name(semaphore), Count::ONE)]).unwrap();
    ask.owner = Some(owner(whose));
    Command::acquire(ask)
}

fn heartbeat(whose: &str, ttl_ms: u64) -> Command {
    Command::Heartbeat {
        owner: owner(whose),
        ttl: Ttl::from_ms(ttl_ms).unwrap(),
        must_exist: false,
    }
}

fn end(external_id: &str, cause: Cause) -> Command {
    Command::End {
        external_id: id(external_id),
        cause,
    }
}

fn ids(requests: &[Request]) -> Vec<&str> {
    let ids = requests.iter().map(|request| request.external_id.as_str());
    ids.collect()
}

fn first<K>(limit: u32) -> Page<K> {
    Page { after: None, limit }
}

async fn run(store: &Sqlite, command: Command) -> Result<Outcome, Error> {
    let mut outcomes = store.transact(&Batch::new(vec![command])).await?;
    Ok(outcomes.remove(0))
}

/// Runs `commands` in one batch, none of which may be refused.
async fn run_all(store: &Sqlite, commands: impl IntoIterator<Item = Command>) {
    let batch = Batch::new(commands.into_iter().collect());
    for outcome in store.transact(&batch).await.unwrap() {
        outcome.unwrap();
    }
}

/// The request of a granted command.
fn granted(outcome: Result<Outcome, Error>) -> Request {
    match outcome.unwrap().unwrap() {
        Reply::Granted { request, .. } => request,
        other => panic!("not granted: {other:?}"),
    }
}
