//! SQL that tests run on a place's database, past the store.

use lockhouse_core::SqlDialect;
use sqlx::{Connection, MySqlConnection, PgConnection};

use crate::statement::is_postgres;

/// Settings of the session, so that the rows that a test reads do not depend on the server's global settings.
const USUAL: &str = "SET time_zone='+00:00', autocommit=1, completion_type=0, \
    sql_select_limit=18446744073709551615, max_join_size=18446744073709551615, sql_big_selects=1";

/// The value of a parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// A connection to the database of a store.
pub enum Database {
    Sqlite(rusqlite::Connection),
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

impl Database {
    /// Connects to the database of the store at `url`.
    pub async fn open(url: &str) -> Self {
        let base = url.split('?').next().unwrap();
        match base.strip_prefix("sqlite:") {
            Some(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection
                    .busy_timeout(std::time::Duration::from_secs(10))
                    .unwrap();
                Self::Sqlite(connection)
            }
            None if is_postgres(base) => Self::Postgres(PgConnection::connect(base).await.unwrap()),
            None => {
                let mut connection = MySqlConnection::connect(base).await.unwrap();
                sqlx::raw_sql(USUAL).execute(&mut connection).await.unwrap();
                Self::MySql(connection)
            }
        }
    }

    /// Runs statements that answer nothing.
    pub async fn run(&mut self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).unwrap(),
            Self::MySql(connection) => {
                sqlx::raw_sql(sql).execute(connection).await.unwrap();
            }
            Self::Postgres(connection) => {
                sqlx::raw_sql(sql).execute(connection).await.unwrap();
            }
        }
    }

    /// The dialect of the database.
    pub async fn dialect(&mut self) -> SqlDialect {
        match self {
            Self::Sqlite(_) => SqlDialect::Sqlite,
            Self::Postgres(_) => SqlDialect::Postgres,
            Self::MySql(_) => match self.number("SELECT VERSION() LIKE '%MariaDB%'").await {
                1 => SqlDialect::MariaDb,
                _ => SqlDialect::MySql,
            },
        }
    }

    /// Begins a transaction that will write, at READ COMMITTED.
    pub async fn begin(&mut self) {
        let begin = match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::MySql(_) => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
            Self::Postgres(_) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        self.run(begin).await;
    }

    /// Runs one statement with `values` for its parameters. Returns how many rows it wrote or returned, or the database's error.
    pub async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, String> {
        match self {
            Self::Sqlite(connection) => {
                let values = values.iter().map(|value| match value {
                    Value::Text(text) => rusqlite::types::Value::from((*text).to_owned()),
                    Value::Number(number) => rusqlite::types::Value::from(*number),
                });
                let run = || {
                    let mut statement = connection.prepare(sql)?;
                    let values = rusqlite::params_from_iter(values);
                    if statement.column_count() == 0 {
                        return statement.execute(values).map(|rows| rows as u64);
                    }
                    let rows = statement.query(values)?.mapped(|_| Ok(()));
                    rows.collect::<Result<Vec<_>, _>>()
                        .map(|rows| rows.len() as u64)
                };
                run().map_err(|error| error.to_string())
            }
            Self::MySql(connection) => {
                let mut query = sqlx::query(sql);
                for value in values {
                    query = match value {
                        Value::Text(text) => query.bind(*text),
                        Value::Number(number) => query.bind(*number),
                    };
                }
                let rows = match sql.starts_with("SELECT") {
                    true => query
                        .fetch_all(connection)
                        .await
                        .map(|rows| rows.len() as u64),
                    false => query
                        .execute(connection)
                        .await
                        .map(|done| done.rows_affected()),
                };
                rows.map_err(|error| error.to_string())
            }
            Self::Postgres(connection) => {
                let mut query = sqlx::query(sql);
                for value in values {
                    query = match value {
                        Value::Text(text) => query.bind(*text),
                        Value::Number(number) => query.bind(*number),
                    };
                }
                // The count includes the rows of a SELECT.
                let done = query.execute(connection).await;
                done.map(|done| done.rows_affected())
                    .map_err(|error| error.to_string())
            }
        }
    }

    /// Makes PostgreSQL write its changed pages now, which would otherwise disturb the measurement later. The other databases
    /// write them all the time.
    pub async fn checkpoint(&mut self) {
        if let Self::Postgres(_) = self {
            self.run("CHECKPOINT").await;
        }
    }

    /// The number that `sql` selects.
    pub async fn number(&mut self, sql: &str) -> i64 {
        match self {
            Self::Sqlite(connection) => connection.query_row(sql, (), |row| row.get(0)).unwrap(),
            Self::MySql(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.unwrap(),
            Self::Postgres(connection) => {
                sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
            }
        }
    }

    /// The time `seconds` seconds ago, as a value of the columns of times. `seconds` is an SQL expression.
    pub fn seconds_ago(&self, seconds: &str) -> String {
        match self {
            Self::Sqlite(_) => {
                format!("CAST((unixepoch() - ({seconds})) * 1000000 AS INTEGER)")
            }
            Self::MySql(_) => format!("UTC_TIMESTAMP(6) - INTERVAL ({seconds}) SECOND"),
            Self::Postgres(_) => format!("clock_timestamp() - ({seconds}) * interval '1 second'"),
        }
    }

    /// Counts writes from now on: each written row of `TABLES` adds a row to the table `written`.
    pub async fn count_writes(&mut self) {
        self.run("CREATE TABLE written (name VARCHAR(64))").await;
        for (name, event, table) in counters() {
            let note = format!("INSERT INTO written VALUES ('{table}')");
            let action = match self {
                Self::Sqlite(_) => format!("BEGIN {note}; END"),
                Self::MySql(_) => format!("FOR EACH ROW {note}"),
                Self::Postgres(_) => {
                    let body = format!("BEGIN {note}; RETURN NULL; END");
                    self.run(&format!(
                        "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
                    ))
                    .await;
                    format!("FOR EACH ROW EXECUTE FUNCTION {name}()")
                }
            };
            self.run(&format!(
                "CREATE TRIGGER {name} AFTER {event} ON {table} {action}"
            ))
            .await;
        }
    }

    /// Stops counting writes. Returns how many rows of each table were written.
    pub async fn written(&mut self) -> Vec<(&'static str, i64)> {
        for (name, _, table) in counters() {
            let drop = match self {
                Self::Sqlite(_) | Self::MySql(_) => format!("DROP TRIGGER {name}"),
                Self::Postgres(_) => {
                    format!("DROP TRIGGER {name} ON {table}; DROP FUNCTION {name}()")
                }
            };
            self.run(&drop).await;
        }
        let mut written = Vec::new();
        for table in TABLES {
            let count = format!("SELECT COUNT(*) FROM written WHERE name = '{table}'");
            let count = self.number(&count).await;
            if count > 0 {
                written.push((table, count));
            }
        }
        self.run("DROP TABLE written").await;
        written
    }
}

/// The tables that permits live in.
const TABLES: [&str; 5] = [
    "lockhouse_semaphore",
    "lockhouse_permit_request",
    "lockhouse_permit",
    "lockhouse_capacity_change",
    "lockhouse_owner_session",
];

/// A trigger's name, its event and its table.
fn counters() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    TABLES.into_iter().flat_map(|table| {
        ["insert", "update", "delete"].map(|event| (format!("count_{event}_{table}"), event, table))
    })
}
