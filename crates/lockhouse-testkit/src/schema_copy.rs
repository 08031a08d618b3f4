//! New databases on MySQL and MariaDB with the schema of this code.
//!
//! On these servers the migrations of an empty database are some forty commits, which take a second or two. A suite makes
//! hundreds of databases. So one database on each server is migrated, and the others get copies of its tables.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use sqlx::{Connection, MySqlConnection};
use tokio::sync::Mutex;

use crate::statement::run;

/// The only table that has rows after the migrations.
const VERSION: &str = "lockhouse_schema_version";

const TABLES: &str =
    "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema=DATABASE()";

/// The statements that copy the schema on a server, by its URL. `{name}` stands for the database that gets the copy.
static COPIES: Mutex<Option<HashMap<String, String>>> = Mutex::const_new(None);

/// Copies the schema to the empty database `name` on `server`.
pub(crate) async fn copy_schema(server: &str, name: &str) {
    let copy = copy(server).await.replace("{name}", name);
    run(server, &copy).await;
}

async fn copy(server: &str) -> String {
    let mut copies = COPIES.lock().await;
    let copies = copies.get_or_insert_default();
    if !copies.contains_key(server) {
        copies.insert(server.to_owned(), make_copy(server).await);
    }
    copies[server].clone()
}

/// Migrates the database that is copied, unless a test program has done so before.
async fn make_copy(server: &str) -> String {
    let from = format!("lockhouse_schema_{:016x}", hash_of_the_migrations());
    run(server, &format!("CREATE DATABASE IF NOT EXISTS {from}")).await;
    let mut url = url::Url::parse(server).unwrap();
    url.set_path(&from);
    let store = lockhouse_stores::open(url.as_str()).unwrap();
    store.migrate().await.unwrap();
    let mut connection = MySqlConnection::connect(url.as_str()).await.unwrap();
    let tables: Vec<String> = sqlx::query_scalar(TABLES)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(tables.iter().any(|table| table == VERSION), "{tables:?}");
    let copies = tables
        .iter()
        .map(|table| format!("CREATE TABLE {{name}}.{table} LIKE {from}.{table};"));
    let copies: String = copies.collect();
    format!("{copies}INSERT INTO {{name}}.{VERSION} SELECT * FROM {from}.{VERSION}")
}

fn hash_of_the_migrations() -> u64 {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockhouse-stores/src/mysql/migrations");
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).unwrap().hash(&mut hasher);
    }
    hasher.finish()
}
