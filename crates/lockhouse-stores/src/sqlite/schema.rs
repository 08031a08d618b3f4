//! The schema's version, and its migrations.
//!
//! Migrations are numbered from 1 and applied in one transaction that holds the write lock, so of
//! several processes that start at once, one applies them and the others find them applied.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use lockhouse_core::Timestamp;
use lockhouse_core::store::{Error, Kind};
use rusqlite::Connection;

use super::connection::{self, Access, POLL};
use super::error::{self, cannot, is_about_schema};

pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_semaphores_and_requests.sql"),
    include_str!("migrations/0002_owner_sessions_and_upkeep.sql"),
    include_str!("migrations/0003_permits_never_change.sql"),
    include_str!("migrations/0004_due_by_semaphore.sql"),
    include_str!("migrations/0005_one_line.sql"),
    include_str!("migrations/0006_listings.sql"),
    include_str!("migrations/0007_templates.sql"),
    include_str!("migrations/0008_slots.sql"),
    include_str!("migrations/0009_deleted_semaphores.sql"),
    include_str!("migrations/0010_finished.sql"),
    include_str!("migrations/0011_tokens.sql"),
];

/// The version that this code needs.
const VERSION: u32 = MIGRATIONS.len() as u32;

const SELECT_VERSION: &str = "SELECT coalesce(max(version), 0) FROM lockhouse_schema_version";

const INSERT_VERSION: &str =
    "INSERT INTO lockhouse_schema_version (version, applied_at) VALUES (?1, ?2)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SELECT_VERSION, INSERT_VERSION];

/// Refuses a schema of another version than this code needs.
pub(super) fn check(connection: &Connection) -> Result<(), Error> {
    let version = version(connection)?;
    refuse_newer(version)?;
    if version < VERSION {
        return Err(older(version));
    }
    Ok(())
}

/// Creates the folder, the file and the schema, if they are missing.
///
/// While one process turns a new file to WAL, another gets SQLITE_BUSY at once, whatever its busy
/// timeout. So after any lock error it begins again until `deadline`.
pub(super) fn migrate(file: &Path, deadline: Instant) -> Result<(), Error> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|source| {
            let problem = format!(
                "the folder {} can't be created; create it, or use another path",
                folder.display()
            );
            Error::new(Kind::Configuration, problem).caused_by(source)
        })?;
    }
    loop {
        match migrate_once(file, deadline) {
            Err(error) if error.kind() == Kind::Conflict && Instant::now() < deadline => {
                thread::sleep(POLL);
            }
            done => return done,
        }
    }
}

fn migrate_once(file: &Path, deadline: Instant) -> Result<(), Error> {
    let connection = connection::open(file, Access::Create, deadline)?;
    let version_now = version(&connection)?;
    refuse_newer(version_now)?;
    refuse_utf_16(&connection)?;
    turn_to_wal(&connection)?;
    if version_now == VERSION {
        return Ok(());
    }
    let transaction = connection::begin_write(&connection, deadline)?;
    let applied = version(&transaction)?;
    refuse_newer(applied)?;
    for (migration, number) in MIGRATIONS.iter().zip(1_u32..).skip(applied as usize) {
        transaction
            .execute_batch(migration)
            .map_err(cannot("apply a migration"))?;
        let applied_at = Timestamp::now().as_microsecond();
        transaction
            .execute(INSERT_VERSION, (number, applied_at))
            .map_err(cannot("note a migration"))?;
        tracing::info!(file = %file.display(), version = number, "migrated");
    }
    transaction.commit().map_err(error::commit)
}

/// Names are compared byte by byte, and UTF-16 has another order of bytes.
fn refuse_utf_16(connection: &Connection) -> Result<(), Error> {
    let encoding: String = connection
        .pragma_query_value(None, "encoding", |row| row.get(0))
        .map_err(cannot("read the file's encoding"))?;
    if encoding != "UTF-8" {
        let problem = format!("the file's encoding is {encoding}; use a separate file in UTF-8");
        return Err(Error::new(Kind::Configuration, problem));
    }
    Ok(())
}

/// WAL, so that reads wait for no write. The file remembers it.
fn turn_to_wal(connection: &Connection) -> Result<(), Error> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(cannot("turn to WAL"))?;
    if mode != "wal" {
        let problem = "this file system does not support SQLite's WAL; use a file on a local disk";
        return Err(Error::new(Kind::Configuration, problem));
    }
    Ok(())
}

/// The version that the file has; 0 without a schema.
fn version(connection: &Connection) -> Result<u32, Error> {
    let cannot = cannot("read the schema's version");
    match connection.prepare_cached(SELECT_VERSION) {
        Ok(mut select) => select.query_row((), |row| row.get(0)).map_err(cannot),
        Err(error) if is_about_schema(&error) => Ok(0),
        Err(error) => Err(cannot(error)),
    }
}

fn refuse_newer(version: u32) -> Result<(), Error> {
    if version > VERSION {
        let problem = format!(
            "the schema has version {version}, this lockhouse knows up to {VERSION}; use a newer one"
        );
        return Err(Error::new(Kind::Schema, problem));
    }
    Ok(())
}

fn older(version: u32) -> Error {
    let has = match version {
        0 => "there is no schema yet".to_owned(),
        _ => format!("the schema has version {version}, this lockhouse needs {VERSION}"),
    };
    Error::new(Kind::Schema, format!("{has}; run `lockhouse migrate`"))
}
