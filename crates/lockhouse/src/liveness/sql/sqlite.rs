//! SQL checks on an SQLite file. The file is opened for each query, which costs little and notices
//! when the file was replaced.

use std::path::PathBuf;

use lockhouse_core::Owner;
use rusqlite::types::Value;
use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::asking::{ANSWER, Said, Trouble};

pub(super) struct SqliteCheck {
    file: PathBuf,
}

impl SqliteCheck {
    /// A check of the URL whose part after `sqlite:` is `rest`.
    pub(super) fn new(rest: &str) -> Result<Self, Trouble> {
        let file = match rest.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            // Do not repeat a host: a password may stand before it.
            Some(_) => "",
            None => rest,
        };
        if file.is_empty() {
            return Err("it names no file; try sqlite:jobs.db".into());
        }
        let file = std::path::absolute(file)?;
        Ok(Self { file })
    }

    pub(super) async fn ask(&self, query: &str, owner: &Owner) -> Result<Said, Trouble> {
        let file = self.file.clone();
        let connection = spawn_blocking(move || open(&file)).await??;
        let _interrupting = Interrupting(connection.get_interrupt_handle());
        let (query, owner) = (query.to_owned(), owner.to_string());
        let answer = spawn_blocking(move || answer(&connection, &query, &owner));
        timeout(ANSWER, answer).await??
    }
}

/// Interrupts the query when its caller has gone away.
struct Interrupting(InterruptHandle);

impl Drop for Interrupting {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

fn open(file: &std::path::Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(ANSWER)?;
    Ok(connection)
}

fn answer(connection: &Connection, query: &str, owner: &str) -> Result<Said, Trouble> {
    let mut query = connection.prepare(query)?;
    let columns = query.column_count();
    let mut rows = query.query([owner])?;
    let Some(row) = rows.next()? else {
        return Ok(Said::NoRow);
    };
    let value: Value = row.get(0)?;
    if rows.next()?.is_some() {
        return Err("the answer has more than one row".into());
    }
    Ok(match value {
        Value::Integer(number) if columns == 1 => Said::One(number),
        _ => Said::Other,
    })
}
