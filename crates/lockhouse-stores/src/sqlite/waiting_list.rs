//! The published lists of waiters.

use std::time::Duration;

use lockhouse_core::store::{Error, SHOWN_FOR, Shown, ShownAt, ShownWaiter};
use lockhouse_core::{ProcessId, SemaphoreName};
use rusqlite::{Connection, Row, params};

use super::error::cannot;
use super::{clock, read, rows};
use crate::shown;
use crate::time::before;

const SHOW: &str = "
    INSERT INTO lockhouse_waiting (semaphore, process, waiters, written_at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (semaphore, process) DO UPDATE
    SET waiters = excluded.waiters, written_at = excluded.written_at";

const DELETE: &str = "DELETE FROM lockhouse_waiting WHERE semaphore = ?1 AND process = ?2";

const LIST: &str = "
    SELECT process, waiters, written_at FROM lockhouse_waiting
    WHERE semaphore = ?1 AND written_at >= ?2";

const LIST_TIMES: &str = "
    SELECT process, written_at FROM lockhouse_waiting WHERE semaphore = ?1";

pub(super) const LIST_OLD: &str = "
    SELECT semaphore, process FROM lockhouse_waiting
    WHERE written_at <= ?1 ORDER BY written_at LIMIT ?2";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SHOW, DELETE, LIST, LIST_TIMES, LIST_OLD];

pub(super) fn show(
    connection: &Connection,
    process: ProcessId,
    waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
    gone: &[SemaphoreName],
) -> Result<(), Error> {
    let cannot = cannot("write the list of waiters");
    let (process, now) = (process.to_string(), clock::now()?.as_microsecond());
    let mut show = connection.prepare_cached(SHOW).map_err(&cannot)?;
    for (name, waiters) in shown::pieces(waiting).concat() {
        let row = params![name.as_str(), process, waiters, now];
        show.execute(row).map_err(&cannot)?;
    }
    let mut delete = connection.prepare_cached(DELETE).map_err(&cannot)?;
    for name in gone {
        delete.execute([name.as_str(), &process]).map_err(&cannot)?;
    }
    Ok(())
}

pub(super) fn shown(connection: &Connection, name: &SemaphoreName) -> Result<Shown, Error> {
    let now = clock::now()?;
    let key = params![name.as_str(), before(now, SHOWN_FOR).as_microsecond()];
    let parse = |row: &Row<'_>| rows::shown(row);
    let processes = read::list(connection, LIST, key, parse)?;
    Ok(Shown { now, processes })
}

pub(super) fn shown_at(connection: &Connection, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
    let now = clock::now()?;
    let mut lists = Vec::new();
    for name in names {
        let parse = |row: &Row<'_>| rows::shown_at(row);
        let written = read::list(connection, LIST_TIMES, params![name.as_str()], parse)?;
        let written = written.into_iter();
        lists.extend(written.map(|(process, at)| (name.clone(), process, at)));
    }
    Ok(ShownAt { now, lists })
}

pub(super) fn forget(connection: &Connection, age: Duration, limit: u32) -> Result<u64, Error> {
    let cannot = cannot("delete old lists of waiters");
    let cutoff = before(clock::now()?, age).as_microsecond();
    let mut list = connection.prepare_cached(LIST_OLD).map_err(&cannot)?;
    let key = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let keys = list
        .query_map(params![cutoff, limit], key)
        .and_then(Iterator::collect::<Result<Vec<(String, String)>, _>>)
        .map_err(&cannot)?;
    let mut delete = connection.prepare_cached(DELETE).map_err(&cannot)?;
    for (name, process) in &keys {
        delete.execute([name, process]).map_err(&cannot)?;
    }
    Ok(keys.len() as u64)
}
