//! Tests on real servers that need private functions.

mod due;
mod listings;
mod locks;
mod shutdown;
mod templates;
mod transactions;

use std::io::Write as _;
use std::time::Duration;

use lockhouse_core::store::Migration as _;
use sqlx::mysql::MySqlRow;
use sqlx::{Connection as _, Executor as _, MySqlConnection, Row as _};

use super::{MySql, MySqlServer};
use crate::sql::{Lease, Script};

const MYSQL: &str = "LOCKHOUSE_TEST_MYSQL_URL";
const MARIADB: &str = "LOCKHOUSE_TEST_MARIADB_URL";

/// The table of semaphores with the columns that tests fill.
const SEMAPHORES: &str =
    "lockhouse_semaphore (id,name,capacity,in_use,fence,created_at,updated_at,deleted_at)";

/// A separate database, with its schema.
async fn database(base: &str) -> (String, MySql) {
    let database = format!("lockhouse_plans_{:016x}", fastrand::u64(..));
    let mut admin = MySqlConnection::connect(base).await.unwrap();
    let create = format!("CREATE DATABASE {database}");
    admin.execute(create.as_str()).await.unwrap();
    let store = MySql::open(&format!("{base}{database}")).unwrap();
    store.migrate().await.unwrap();
    (database, store)
}

async fn remove(base: &str, database: &str) {
    let mut admin = MySqlConnection::connect(base).await.unwrap();
    let remove = format!("DROP DATABASE {database}");
    admin.execute(remove.as_str()).await.unwrap();
}

async fn lend(store: &MySql, variable: &str) -> Lease<MySqlServer> {
    let mut lease = store.0.pool.lend(Duration::from_secs(9)).await.unwrap();
    if variable == MYSQL {
        run(&mut lease, "SET explain_format='TRADITIONAL'").await;
    }
    lease
}

fn column(row: &MySqlRow, name: &str) -> String {
    let value: Option<String> = row.try_get_unchecked(name).unwrap();
    value.unwrap_or_default()
}

async fn run(lease: &mut Lease<MySqlServer>, statement: &str) -> Vec<MySqlRow> {
    let mut answers = lease.run(&Script::of(statement), "a test").await.unwrap();
    answers.pop().unwrap()
}

/// The server of the environment variable. Without it, the test is skipped and says so, unless all
/// tests are required.
fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        let all = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
        assert!(!all, "{variable} is not set");
        let left_out = format!("left out a test on a server: {variable} is not set\n");
        std::io::stderr().write_all(left_out.as_bytes()).unwrap();
    }
    url
}
