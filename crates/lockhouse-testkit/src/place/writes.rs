//! Whether a store's rows were written, seen past the store.

use std::sync::Arc;

use lockhouse_stores::Memory;
use redis::aio::MultiplexedConnection;

use super::{Place, text_of};
use crate::database::Database;
use crate::redis::{connect, is_redis, prefix};
use crate::statement::is_postgres;

/// Sees each commit that writes rows of a place. On a server it also sees a row that keeps its values. In memory it compares
/// values, and SQLite itself skips a row that keeps them.
pub struct Writes(Source);

enum Source {
    Memory {
        memory: Arc<Memory>,
        rows: String,
    },
    /// The server refuses a transaction if a key that the connection watches was written.
    Redis {
        connection: MultiplexedConnection,
        prefix: String,
        keys: Vec<String>,
    },
    /// A number that changes with each write of another connection.
    Sql {
        database: Database,
        select: &'static str,
        number: i64,
    },
}

impl Writes {
    /// Begins to see the writes on `place`, whose schema is there.
    pub async fn of(place: &Place) -> Self {
        if let Some(memory) = &place.memory {
            return Self(Source::Memory {
                memory: Arc::clone(memory),
                rows: format!("{memory:?}"),
            });
        }
        let url = place.url();
        if is_redis(url) {
            let mut connection = connect(url).await;
            let prefix = prefix(url);
            let keys = watch(&mut connection, &prefix).await;
            return Self(Source::Redis {
                connection,
                prefix,
                keys,
            });
        }
        let mut database = Database::open(url).await;
        let select = match url.starts_with("sqlite:") {
            true => "PRAGMA data_version",
            false => {
                database.run(&triggers(place).await).await;
                "SELECT COUNT(*) FROM written"
            }
        };
        let number = database.number(select).await;
        Self(Source::Sql {
            database,
            select,
            number,
        })
    }

    /// Whether there was a write since the last call, or since [`of`](Self::of).
    pub async fn any(&mut self) -> bool {
        match &mut self.0 {
            Source::Memory { memory, rows } => {
                let now = format!("{memory:?}");
                std::mem::replace(rows, now) != *rows
            }
            Source::Redis {
                connection,
                prefix,
                keys,
            } => {
                let is_written = is_written(connection, prefix, keys).await;
                *keys = watch(connection, prefix).await;
                is_written
            }
            Source::Sql {
                database,
                select,
                number,
            } => {
                let now = database.number(select).await;
                std::mem::replace(number, now) != now
            }
        }
    }
}

/// Triggers on all tables of a server's database, which add a row to the table `written` for each row that is written.
async fn triggers(place: &Place) -> String {
    let is_postgres = is_postgres(place.url());
    let (tables, written) = match is_postgres {
        true => (
            "SELECT string_agg(tablename,',') FROM pg_tables WHERE schemaname=current_schema()",
            "CREATE TABLE written (how text); CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN INSERT INTO written VALUES (TG_OP); RETURN NULL; END'",
        ),
        false => (
            "SELECT CAST(GROUP_CONCAT(table_name) AS CHAR) FROM information_schema.tables WHERE table_schema=DATABASE()",
            "CREATE TABLE written (id INT AUTO_INCREMENT PRIMARY KEY, how TEXT)",
        ),
    };
    let tables = text_of(place, tables).await;
    let mut statements = vec![written.to_owned()];
    for table in tables.split(',') {
        statements.extend(["INSERT", "UPDATE", "DELETE"].map(|how| {
            let write_down = match is_postgres {
                true => "EXECUTE FUNCTION write_down()".to_owned(),
                false => format!("INSERT INTO written (how) VALUES ('{how}')"),
            };
            format!("CREATE TRIGGER {how}_{table} AFTER {how} ON {table} FOR EACH ROW {write_down}")
        }));
    }
    statements.join(";")
}

/// Watches all keys that begin with `prefix`, and returns them.
async fn watch(connection: &mut MultiplexedConnection, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = list(prefix).query_async(connection).await.unwrap();
    keys.sort_unstable();
    let mut watch = redis::cmd("WATCH");
    // Without a key the command is refused.
    watch.arg(prefix).arg(&keys);
    let () = watch.query_async(connection).await.unwrap();
    keys
}

/// Whether one of the watched `keys` was written, or there are others.
async fn is_written(connection: &mut MultiplexedConnection, prefix: &str, keys: &[String]) -> bool {
    let () = redis::cmd("MULTI").query_async(connection).await.unwrap();
    let () = list(prefix).query_async(connection).await.unwrap();
    let listed = redis::cmd("EXEC").query_async(connection).await.unwrap();
    let Some((mut now,)): Option<(Vec<String>,)> = listed else {
        return true;
    };
    now.sort_unstable();
    now != keys
}

fn list(prefix: &str) -> redis::Cmd {
    let mut list = redis::cmd("KEYS");
    list.arg(format!("{prefix}*"));
    list
}
