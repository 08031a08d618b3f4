//! SQLite, one commit at a time: an acquire is a transaction, and a release is another.
//!
//! The file has one writer. So all clients share a connection on a separate thread, which serves them in the order of
//! arrival. That is faster than if all of them waited for the file's lock. It is as durable as Lockhouse's own store, and
//! writes the least that is needed: a counter in the semaphore's row, a row for the request, and one for each permit.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use tokio::sync::oneshot;

use super::{Client, Contender, Failure, settings};
use crate::Failed;
use crate::measured::Server;
use crate::shape::{Ask, Shape};

const SETTINGS: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA fullfsync=ON";

const TABLES: &str = "
    CREATE TABLE single_semaphore (
        id INTEGER PRIMARY KEY, capacity INTEGER NOT NULL, in_use INTEGER NOT NULL);
    CREATE TABLE single_request (
        id INTEGER PRIMARY KEY, external_id TEXT NOT NULL UNIQUE, state TEXT NOT NULL);
    CREATE TABLE single_permit (
        request_id INTEGER NOT NULL, semaphore_id INTEGER NOT NULL, permits INTEGER NOT NULL,
        PRIMARY KEY (request_id, semaphore_id)) WITHOUT ROWID;";

/// One transaction an acquire and one a release, in an SQLite file.
#[derive(Debug)]
pub(super) struct Single {
    file: PathBuf,
    calls: mpsc::Sender<Call>,
}

type Work = Box<dyn FnOnce(&mut Connection) -> rusqlite::Result<bool> + Send>;

struct Call {
    work: Work,
    answer: oneshot::Sender<rusqlite::Result<bool>>,
}

struct SingleClient {
    calls: mpsc::Sender<Call>,
    held: String,
}

impl Single {
    /// In the file of `sqlite:PATH`, beside what else is there.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub(super) fn at(url: &str) -> Result<Self, Failed> {
        let file = PathBuf::from(format!(
            "{}.single",
            url.strip_prefix("sqlite:")
                .ok_or("the URL is not sqlite:PATH")?
        ));
        let mut connection = Connection::open(&file)?;
        connection.execute_batch(SETTINGS)?;
        let (calls, called) = mpsc::channel::<Call>();
        thread::spawn(move || {
            for Call { work, answer } in called {
                // The send fails if the caller went away, which does no harm.
                let _ = answer.send(work(&mut connection));
            }
        });
        Ok(Self { file, calls })
    }
}

#[async_trait]
impl Contender for Single {
    fn name(&self) -> String {
        "one commit at a time".into()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        let (semaphores, capacity) = (shape.semaphores, shape.capacity());
        call(&self.calls, move |connection| {
            connection.execute_batch(TABLES)?;
            let transaction = connection.transaction()?;
            for id in 0..semaphores {
                let insert = "INSERT INTO single_semaphore VALUES (?1, ?2, 0)";
                transaction.execute(insert, (id as i64, capacity))?;
            }
            transaction.commit()?;
            Ok(true)
        })
        .await?;
        Ok(())
    }

    async fn client(&self, _: usize) -> Result<Box<dyn Client>, Failed> {
        Ok(Box::new(SingleClient {
            calls: self.calls.clone(),
            held: String::new(),
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        Ok(settings::sqlite())
    }

    async fn clear(&self) -> Result<(), Failed> {
        for end in ["", "-wal", "-shm"] {
            let mut path = self.file.clone().into_os_string();
            path.push(end);
            // The last two may have gone already.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }
}

#[async_trait]
impl Client for SingleClient {
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        let (external_id, count) = (ask.external_id.to_owned(), ask.count);
        let semaphores = ask.semaphores.to_vec();
        self.held.clone_from(&external_id);
        let work =
            move |connection: &mut Connection| grant(connection, &external_id, &semaphores, count);
        match call(&self.calls, work).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new("exhausted", "no room now")),
            Err(error) => Err(Failure::new("error", error)),
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let external_id = std::mem::take(&mut self.held);
        match call(&self.calls, move |connection| end(connection, &external_id)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new("unknown", "the request is not live")),
            Err(error) => Err(Failure::new("error", error)),
        }
    }
}

fn grant(
    connection: &mut Connection,
    external_id: &str,
    semaphores: &[usize],
    count: u32,
) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let known = transaction
        .prepare_cached("SELECT state FROM single_request WHERE external_id=?1")?
        .query_row((external_id,), |row| row.get::<_, String>(0))
        .optional()?;
    if let Some(state) = known {
        return Ok(state == "ACQUIRED");
    }
    for semaphore in semaphores {
        let took = transaction
            .prepare_cached(
                "UPDATE single_semaphore SET in_use=in_use+?2 WHERE id=?1 AND in_use+?2<=capacity",
            )?
            .execute((*semaphore as i64, count))?;
        if took == 0 {
            return Ok(false);
        }
    }
    transaction
        .prepare_cached("INSERT INTO single_request (external_id,state) VALUES (?1,'ACQUIRED')")?
        .execute((external_id,))?;
    let request = transaction.last_insert_rowid();
    for semaphore in semaphores {
        transaction
            .prepare_cached("INSERT INTO single_permit VALUES (?1,?2,?3)")?
            .execute((request, *semaphore as i64, count))?;
    }
    transaction.commit()?;
    Ok(true)
}

fn end(connection: &mut Connection, external_id: &str) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let request: Option<i64> = transaction
        .prepare_cached(
            "UPDATE single_request SET state='RELEASED' \
             WHERE external_id=?1 AND state='ACQUIRED' RETURNING id",
        )?
        .query_row((external_id,), |row| row.get(0))
        .optional()?;
    let Some(request) = request else {
        return Ok(false);
    };
    transaction
        .prepare_cached(
            "UPDATE single_semaphore SET in_use=in_use-p.permits FROM single_permit AS p \
             WHERE p.request_id=?1 AND single_semaphore.id=p.semaphore_id",
        )?
        .execute((request,))?;
    transaction.commit()?;
    Ok(true)
}

async fn call(
    calls: &mpsc::Sender<Call>,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<bool> + Send + 'static,
) -> Result<bool, Failed> {
    let (answer, answered) = oneshot::channel();
    let work = Box::new(work);
    if calls.send(Call { work, answer }).is_err() {
        return Err("the connection's thread has died".into());
    }
    Ok(answered.await??)
}
