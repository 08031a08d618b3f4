//! Asking an SQLite file. It is opened for each question: that costs little, and finds a file that
//! was put in its place.

use std::path::PathBuf;

use lockhouse_core::Owner;
use rusqlite::types::Value;
use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::asking::{ANSWER, Said, Trouble};

pub(super) struct Asked {
    file: PathBuf,
}

impl Asked {
    /// Of a URL from behind its `sqlite:` on.
    pub(super) fn new(rest: &str) -> Result<Self, Trouble> {
        let file = match rest.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            // A host may have a password before it.
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

/// Ends the question when nobody waits for its answer any more.
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
