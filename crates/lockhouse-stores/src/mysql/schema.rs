//! The schema: which version is there, and how it gets there.
//!
//! Any number of processes may migrate at once, and nothing keeps them apart: GET_LOCK, which
//! would, is refused by Galera and local to a node elsewhere. So each statement of a migration can
//! be run again by whoever comes second, and the version is written last.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind};

use super::Inner;
use super::error::{code, server_code};
use super::pool::Lease;
use super::read::READ;
use super::rows;
use super::sql::Script;

/// The migrations, in order. The first takes the schema to version 1.
const MIGRATIONS: [&str; 2] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_owners_and_the_past.sql"),
];

/// The version that this code needs.
const VERSION: u32 = MIGRATIONS.len() as u32;

/// How long all migrations may take. An index of a large table takes a while.
const WORK: Duration = Duration::from_secs(600);

/// How often a migration is tried again when others are in its way, and the longest pause between.
const ATTEMPTS: u32 = 30;
const PAUSE_MS: u64 = 1000;

/// What changes a table waits for all transactions on it, and those that come after wait for it:
/// so not for long.
const LOCK_WAIT: &str = "SET lock_wait_timeout=2";
const USUAL_LOCK_WAIT: &str = "SET lock_wait_timeout=5";

/// What a statement says that somebody else has run before.
const ALREADY_DONE: [u16; 4] = [
    code::TABLE_EXISTS,
    code::DUP_FIELDNAME,
    code::DUP_KEYNAME,
    code::CANT_DROP_FIELD_OR_KEY,
];

const CONTEXT: &str = "migrating";

/// Whether the schema is the one that this code needs.
pub(super) async fn ready(store: &Inner) -> Result<(), Error> {
    let mut lease = store.pool.lend(READ).await?;
    match version(&mut lease).await? {
        VERSION => Ok(()),
        older @ 0..VERSION => Err(Error::new(
            Kind::Schema,
            format!("the schema has version {older}, not {VERSION}; run `lockhouse migrate`"),
        )),
        newer => Err(too_new(newer)),
    }
}

/// Brings the schema up to this code's version. Only reads if it is there already, so that it
/// takes no right to change tables.
pub(super) async fn migrate(store: &Inner) -> Result<(), Error> {
    let mut lease = store.pool.lend(READ).await?;
    let found = version(&mut lease).await?;
    if found > VERSION {
        return Err(too_new(found));
    }
    if found == VERSION {
        return Ok(());
    }
    lease.extend(WORK);
    lease.run(&Script::of(LOCK_WAIT), CONTEXT).await?;
    let migrated = migrate_from(&mut lease, found).await;
    let usual = lease.run(&Script::of(USUAL_LOCK_WAIT), CONTEXT).await;
    migrated.and(usual.map(|_| ()))
}

async fn migrate_from(lease: &mut Lease, found: u32) -> Result<(), Error> {
    let collation = collation(lease).await?;
    for (version, migration) in (1..).zip(MIGRATIONS).skip(found as usize) {
        let migration = migration.replace("{collation}", collation);
        let mut attempt = 1;
        while let Err(error) = apply(lease, version, &migration).await {
            if error.kind() != Kind::Conflict || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            let pause = fastrand::u64(1..=50) * u64::from(attempt);
            tokio::time::sleep(Duration::from_millis(pause.min(PAUSE_MS))).await;
        }
    }
    Ok(())
}

async fn apply(lease: &mut Lease, version: u32, migration: &str) -> Result<(), Error> {
    for statement in migration.split(";\n") {
        if statement.trim().is_empty() {
            continue;
        }
        match lease.run(&Script::of(statement), CONTEXT).await {
            Err(error) if !server_code(&error).is_some_and(|code| ALREADY_DONE.contains(&code)) => {
                return Err(error);
            }
            _ => {}
        }
    }
    let applied = Script::of(format_args!(
        "INSERT IGNORE INTO lockhouse_schema_version (version,applied_at) \
         VALUES ({version},SYSDATE(6))"
    ));
    lease.run(&applied, CONTEXT).await.map(|_| ())
}

/// The version that is there; 0 before the first migration.
async fn version(lease: &mut Lease) -> Result<u32, Error> {
    let script = Script::of("SELECT COALESCE(MAX(version),0) FROM lockhouse_schema_version");
    let context = "reading the version of the schema";
    match lease.run(&script, context).await {
        Ok(answers) => match answers.first().map(Vec::as_slice) {
            Some([row]) => rows::number(row),
            _ => Err(Error::new(Kind::Rejected, context)),
        },
        Err(error) if server_code(&error) == Some(code::NO_SUCH_TABLE) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The server's name for the collation that compares byte by byte, trailing spaces included.
async fn collation(lease: &mut Lease) -> Result<&'static str, Error> {
    let answers = lease.run(&Script::of("SELECT VERSION()"), CONTEXT).await?;
    let is_mariadb = match answers.first().and_then(|rows| rows.first()) {
        Some(row) => rows::text(row)?.is_some_and(|version| version.contains("MariaDB")),
        None => false,
    };
    Ok(if is_mariadb {
        "utf8mb4_nopad_bin"
    } else {
        "utf8mb4_0900_bin"
    })
}

fn too_new(found: u32) -> Error {
    Error::new(
        Kind::Schema,
        format!(
            "the schema has version {found}, and this Lockhouse knows {VERSION}; use a newer one"
        ),
    )
}
