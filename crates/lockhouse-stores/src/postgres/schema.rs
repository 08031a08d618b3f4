//! Schema migrations.
//!
//! Each migration is one transaction, which also writes its version. An advisory lock lets one
//! process migrate at a time, so the next process finds the version written.

use lockhouse_core::store::{Error, Kind};

use super::PostgresServer;
use super::sql::BEGIN;
use crate::sql::{Lease, Script, rows};

/// The migrations, in order. The first takes the schema to version 1.
const MIGRATIONS: [&str; 8] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_due_by_semaphore.sql"),
    include_str!("migrations/0003_one_line.sql"),
    include_str!("migrations/0004_listings.sql"),
    include_str!("migrations/0005_templates.sql"),
    include_str!("migrations/0006_slots.sql"),
    include_str!("migrations/0007_finished.sql"),
    include_str!("migrations/0008_tokens.sql"),
];

/// The version that this code needs.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

pub(super) const HAS_SCHEMA: &str = "SELECT COUNT(to_regclass('lockhouse_schema_version'))";

/// The key of the advisory lock: the letters `lockhous`, which other programs are unlikely to use.
const LOCK: u64 = 0x6c6f_636b_686f_7573;

const CONTEXT: &str = "migrating";

pub(super) async fn migrate(lease: &mut Lease<PostgresServer>, found: u32) -> Result<(), Error> {
    let migrated = migrate_from(lease, found).await;
    lease.roll_back().await;
    migrated
}

/// Leaves the transaction open if another process has migrated, or an error occurs.
async fn migrate_from(lease: &mut Lease<PostgresServer>, found: u32) -> Result<(), Error> {
    for (version, migration) in (1..).zip(MIGRATIONS).skip(found as usize) {
        if lock(lease).await? >= version {
            lease.roll_back().await;
            continue;
        }
        let mut script = Script::new();
        for statement in migration
            .split(";\n")
            .filter(|text| !text.trim().is_empty())
        {
            script.add(statement);
        }
        script.add(format_args!(
            "INSERT INTO lockhouse_schema_version (version,applied_at) \
             VALUES ({version},clock_timestamp())"
        ));
        script.commit();
        lease.run(&script, CONTEXT).await?;
    }
    Ok(())
}

/// Begins a transaction that holds the lock, and returns the current version. It waits for as long
/// as other processes migrate a large table.
async fn lock(lease: &mut Lease<PostgresServer>) -> Result<u32, Error> {
    let mut script = Script::transaction(BEGIN);
    script.add("SET LOCAL statement_timeout='10min'");
    script.add("SET LOCAL lock_timeout='10min'");
    script.add(format_args!("SELECT pg_advisory_xact_lock({LOCK})"));
    script.add("SET LOCAL lock_timeout='2s'");
    script.add(
        "CREATE TABLE IF NOT EXISTS lockhouse_schema_version \
         (version integer PRIMARY KEY,applied_at timestamptz NOT NULL)",
    );
    script.add("SELECT COALESCE(MAX(version),0) FROM lockhouse_schema_version");
    let answers = lease.run(&script, CONTEXT).await?;
    match answers.last().map(Vec::as_slice) {
        Some([row]) => rows::number(row),
        _ => Err(Error::new(Kind::Rejected, CONTEXT)),
    }
}
