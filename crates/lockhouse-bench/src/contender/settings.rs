//! Reads a server's version and durability settings.

use std::collections::BTreeMap;

use sqlx::{Connection, MySqlConnection, PgConnection};

use crate::Failed;
use crate::measured::Server;

const MYSQL: [&str; 4] = [
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "innodb_doublewrite",
];

const POSTGRES: [&str; 4] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
];

/// Asks the server behind `url`; nothing is known of one that is not a database's.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn of(url: &str) -> Result<Server, Failed> {
    match url.split(':').next().unwrap_or_default() {
        "mysql" | "mariadb" => mysql(url).await,
        "postgres" | "postgresql" => postgres(url).await,
        "redis" | "rediss" => super::redis::server_of(url).await,
        "sqlite" => Ok(sqlite()),
        "memory" => Ok(named("memory")),
        _ => Ok(Server::default()),
    }
}

async fn mysql(url: &str) -> Result<Server, Failed> {
    let url = url.replacen("mariadb://", "mysql://", 1);
    let mut connection = MySqlConnection::connect(&url).await?;
    let version: String = sqlx::query_scalar("SELECT VERSION()")
        .fetch_one(&mut connection)
        .await?;
    let mut server = Server {
        version: match version.contains("MariaDB") {
            true => format!("MariaDB {}", before_dash(&version)),
            false => format!("MySQL {}", before_dash(&version)),
        },
        durability: BTreeMap::new(),
    };
    for name in MYSQL {
        let select = format!("SELECT CAST(@@GLOBAL.{name} AS CHAR)");
        let value = sqlx::query_scalar(&select).fetch_one(&mut connection);
        // Servers that are like MySQL may not have all of them.
        if let Ok(value) = value.await {
            server.durability.insert(name.to_owned(), value);
        }
    }
    connection.close().await?;
    Ok(server)
}

async fn postgres(url: &str) -> Result<Server, Failed> {
    let mut connection = PgConnection::connect(url).await?;
    let version: String = sqlx::query_scalar("SHOW server_version")
        .fetch_one(&mut connection)
        .await?;
    let short = version.split(' ').next().unwrap_or_default();
    let mut server = named(&format!("PostgreSQL {short}"));
    for name in POSTGRES {
        let value: String = sqlx::query_scalar(&format!("SHOW {name}"))
            .fetch_one(&mut connection)
            .await?;
        server.durability.insert(name.to_owned(), value);
    }
    connection.close().await?;
    Ok(server)
}

/// Its settings are the program's: this is what both Lockhouse and the yardstick set.
pub(super) fn sqlite() -> Server {
    let mut server = named(&format!("SQLite {}", rusqlite::version()));
    let settings = [("synchronous", "FULL"), ("journal_mode", "wal")];
    for (name, value) in settings {
        server.durability.insert(name.to_owned(), value.to_owned());
    }
    server
}

fn named(version: &str) -> Server {
    Server {
        version: version.to_owned(),
        durability: BTreeMap::new(),
    }
}

fn before_dash(version: &str) -> &str {
    version.split('-').next().unwrap_or(version)
}
