//! Schema migrations.
//!
//! Any number of processes may migrate at once, without mutual exclusion: Galera refuses GET_LOCK,
//! and on other clusters it is local to a node. So each statement of a migration may run twice, and
//! the version is written last.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind};

use super::MySqlServer;
use super::error::{code, server_code};
use crate::sql::{Lease, Script, rows};

/// The migrations, in order. The first takes the schema to version 1.
const MIGRATIONS: [&str; 11] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_owners_and_the_past.sql"),
    include_str!("migrations/0003_less_to_write.sql"),
    include_str!("migrations/0004_whose_they_are.sql"),
    include_str!("migrations/0005_due_by_semaphore.sql"),
    include_str!("migrations/0006_one_line.sql"),
    include_str!("migrations/0007_listings.sql"),
    include_str!("migrations/0008_templates.sql"),
    include_str!("migrations/0009_slots.sql"),
    include_str!("migrations/0010_finished.sql"),
    include_str!("migrations/0011_tokens.sql"),
];

/// The version that this code needs.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

pub(super) const HAS_SCHEMA: &str = "SELECT COUNT(*) FROM information_schema.tables \
    WHERE table_schema=DATABASE() AND table_name='lockhouse_schema_version'";

/// How many times a migration is tried while other transactions block it, and the longest pause in
/// between, in milliseconds.
const ATTEMPTS: u32 = 30;
const PAUSE_MS: u64 = 1000;

/// An ALTER waits for all transactions on the table, and later transactions wait for the ALTER. So
/// it must not wait long.
const LOCK_WAIT: &str = "SET lock_wait_timeout=2";
const USUAL_LOCK_WAIT: &str = "SET lock_wait_timeout=5";

/// The errors of a statement that another process has run before.
const ALREADY_DONE: [u16; 4] = [
    code::TABLE_EXISTS,
    code::DUP_FIELDNAME,
    code::DUP_KEYNAME,
    code::CANT_DROP_FIELD_OR_KEY,
];

const CONTEXT: &str = "migrating";

pub(super) async fn migrate(lease: &mut Lease<MySqlServer>, found: u32) -> Result<(), Error> {
    lease.run(&Script::of(LOCK_WAIT), CONTEXT).await?;
    let migrated = migrate_from(lease, found).await;
    let usual = lease.run(&Script::of(USUAL_LOCK_WAIT), CONTEXT).await;
    migrated.and(usual.map(|_| ()))
}

async fn migrate_from(lease: &mut Lease<MySqlServer>, found: u32) -> Result<(), Error> {
    let collation = collation(lease).await?;
    for (version, migration) in (1..).zip(MIGRATIONS).skip(found as usize) {
        let migration = migration.replace("{collation}", collation);
        let mut attempt = 1;
        while let Err(error) = apply(lease, version, &migration).await {
            let is_in_the_way = matches!(error.kind(), Kind::Conflict | Kind::Locked);
            if !is_in_the_way || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            let pause = fastrand::u64(1..=50) * u64::from(attempt);
            tokio::time::sleep(Duration::from_millis(pause.min(PAUSE_MS))).await;
        }
    }
    Ok(())
}

async fn apply(lease: &mut Lease<MySqlServer>, version: u32, migration: &str) -> Result<(), Error> {
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

/// The server's name for the collation that compares byte by byte, trailing spaces included.
async fn collation(lease: &mut Lease<MySqlServer>) -> Result<&'static str, Error> {
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
