//! The version of the schema, and whether it is the one that this code needs.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind};

use super::Inner;
use super::dialect::Dialect;
use super::pool::Lease;
use super::read::{READ, select};
use super::rows;
use super::script::Script;

/// How long all migrations may take. An index of a large table takes a while.
const MIGRATING: Duration = Duration::from_secs(600);

/// Whether the schema is the one that this code needs.
pub(crate) async fn ready<D: Dialect>(store: &Inner<D>) -> Result<(), Error> {
    let mut lease = store.pool.lend(READ).await?;
    let (found, needed) = (version(&mut lease).await?, D::SCHEMA);
    if found < needed {
        return Err(Error::new(
            Kind::Schema,
            format!("the schema has version {found}, not {needed}; run `lockhouse migrate`"),
        ));
    }
    not_newer::<D>(found)
}

/// Migrates the schema to this code's version. If the schema is up to date it only reads, so that
/// it needs no right to change tables.
pub(crate) async fn migrate<D: Dialect>(store: &Inner<D>) -> Result<(), Error> {
    let mut lease = store.pool.lend(READ).await?;
    let found = version(&mut lease).await?;
    not_newer::<D>(found)?;
    if found == D::SCHEMA {
        return Ok(());
    }
    lease.extend(MIGRATING);
    D::migrate(&mut lease, found).await
}

/// The current version; 0 before the first migration.
pub(crate) async fn version<D: Dialect>(lease: &mut Lease<D>) -> Result<u32, Error> {
    if number(lease, D::HAS_SCHEMA).await? == 0 {
        return Ok(0);
    }
    number(
        lease,
        "SELECT COALESCE(MAX(version),0) FROM lockhouse_schema_version",
    )
    .await
}

async fn number<D: Dialect>(lease: &mut Lease<D>, select_it: &str) -> Result<u32, Error> {
    let context = "reading the version of the schema";
    let found = select(lease, &Script::of(select_it), context).await?;
    match found.as_slice() {
        [row] => rows::number(row),
        _ => Err(Error::new(Kind::Rejected, context)),
    }
}

fn not_newer<D: Dialect>(found: u32) -> Result<(), Error> {
    let known = D::SCHEMA;
    if found <= known {
        return Ok(());
    }
    Err(Error::new(
        Kind::Schema,
        format!(
            "the schema has version {found}, and this Lockhouse knows {known}; use a newer one"
        ),
    ))
}
