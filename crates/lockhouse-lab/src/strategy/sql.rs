//! Just enough SQL: statements with `?`, answered by a number.

use std::fmt;
use std::time::Duration;

use sqlx::mysql::MySqlArguments;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, Connection, Executor, MySqlConnection, PgConnection};

/// How long a statement waits for a lock, on SQLite.
const BUSY: Duration = Duration::from_secs(5);

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// MySQL or MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Server {
    /// The kind that `url` names, if it has SQL.
    pub fn of(url: &str) -> Option<Self> {
        match url.split(':').next()? {
            "mysql" | "mariadb" => Some(Self::MySql),
            "postgres" | "postgresql" => Some(Self::Postgres),
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }
}

/// A connection.
pub enum Sql {
    #[doc(hidden)]
    MySql(MySqlConnection),
    #[doc(hidden)]
    Postgres(PgConnection),
    #[doc(hidden)]
    Sqlite(rusqlite::Connection),
}

/// An error of the database.
#[derive(Debug)]
pub enum Trouble {
    /// The key exists.
    Duplicate,
    /// The database ended the transaction because of a deadlock.
    Deadlock,
    /// Another error.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Duplicate => f.write_str("the key exists"),
            Trouble::Deadlock => f.write_str("deadlock"),
            Trouble::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Trouble {}

/// A text or a number to put in a statement.
pub(crate) trait Value: Send + Sync {
    #[doc(hidden)]
    fn text(&self) -> Option<&str> {
        None
    }
    #[doc(hidden)]
    fn number(&self) -> i64 {
        0
    }
}

impl Value for &str {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Value for String {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Value for i64 {
    fn number(&self) -> i64 {
        *self
    }
}

impl Sql {
    /// Connects, with READ COMMITTED where the database has isolation levels.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub async fn open(url: &str) -> Result<Self, Trouble> {
        let trouble = |error: sqlx::Error| Trouble::Other(error.to_string());
        match Server::of(url) {
            Some(Server::MySql) => {
                let url = url.replacen("mariadb://", "mysql://", 1);
                let mut connection = MySqlConnection::connect(&url).await.map_err(trouble)?;
                let set = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                connection.execute(set).await.map_err(trouble)?;
                Ok(Self::MySql(connection))
            }
            Some(Server::Postgres) => {
                let connection = PgConnection::connect(url).await;
                Ok(Self::Postgres(connection.map_err(trouble)?))
            }
            Some(Server::Sqlite) => {
                let path = url.trim_start_matches("sqlite:");
                let path = path.split('?').next().unwrap_or_default();
                let trouble = |error: rusqlite::Error| Trouble::Other(error.to_string());
                let connection = rusqlite::Connection::open(path).map_err(trouble)?;
                connection.busy_timeout(BUSY).map_err(trouble)?;
                Ok(Self::Sqlite(connection))
            }
            None => Err(Trouble::Other("the URL is not that of a database".into())),
        }
    }

    /// Begins a transaction that may write.
    pub(crate) async fn begin(&mut self) -> Result<(), Trouble> {
        let begin = match self {
            Sql::Sqlite(_) => "BEGIN IMMEDIATE",
            _ => "BEGIN",
        };
        self.run(begin, &[]).await.map(drop)
    }

    /// Runs a statement. Returns how many rows it changed, or found.
    pub(crate) async fn run(&mut self, sql: &str, values: &[&dyn Value]) -> Result<u64, Trouble> {
        let sql = self.spelled(sql);
        match self {
            Sql::MySql(connection) if values.is_empty() => {
                // Some statements cannot be prepared.
                let done = connection.execute(&*sql).await.map_err(mysql)?;
                Ok(done.rows_affected())
            }
            Sql::MySql(connection) => {
                let done = sqlx::query_with(&sql, mysql_values(values)).execute(connection);
                Ok(done.await.map_err(mysql)?.rows_affected())
            }
            Sql::Postgres(connection) if values.is_empty() => {
                let done = connection.execute(&*sql).await.map_err(postgres)?;
                Ok(done.rows_affected())
            }
            Sql::Postgres(connection) => {
                let done = sqlx::query_with(&sql, postgres_values(values)).execute(connection);
                Ok(done.await.map_err(postgres)?.rows_affected())
            }
            Sql::Sqlite(connection) => {
                let mut statement = connection.prepare(&sql).map_err(sqlite)?;
                let values = rusqlite::params_from_iter(values.iter().map(|v| sqlite_value(*v)));
                statement.execute(values).map(|n| n as u64).map_err(sqlite)
            }
        }
    }

    /// The number that a statement selects, if there is a row.
    pub(crate) async fn number(
        &mut self,
        sql: &str,
        values: &[&dyn Value],
    ) -> Result<Option<i64>, Trouble> {
        let sql = self.spelled(sql);
        match self {
            Sql::MySql(connection) => {
                let found = sqlx::query_scalar_with(&sql, mysql_values(values));
                found.fetch_optional(connection).await.map_err(mysql)
            }
            Sql::Postgres(connection) => {
                let found = sqlx::query_scalar_with(&sql, postgres_values(values));
                found.fetch_optional(connection).await.map_err(postgres)
            }
            Sql::Sqlite(connection) => {
                let mut statement = connection.prepare(&sql).map_err(sqlite)?;
                let values = rusqlite::params_from_iter(values.iter().map(|v| sqlite_value(*v)));
                let mut rows = statement.query(values).map_err(sqlite)?;
                let row = rows.next().map_err(sqlite)?;
                row.map(|row| row.get(0)).transpose().map_err(sqlite)
            }
        }
    }

    /// Replaces placeholders by the database's own syntax: `{now}` is its clock in microseconds, `{for_update}` locks rows,
    /// and `{serial}` is a key that counts up.
    fn spelled(&self, sql: &str) -> String {
        let (now, for_update, serial) = match self {
            Sql::MySql(_) => (
                "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
                "FOR UPDATE",
                "BIGINT AUTO_INCREMENT PRIMARY KEY",
            ),
            Sql::Postgres(_) => (
                "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
                "FOR UPDATE",
                "BIGSERIAL PRIMARY KEY",
            ),
            Sql::Sqlite(_) => (
                "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
                "",
                "INTEGER PRIMARY KEY",
            ),
        };
        let spelled = sql
            .replace("{now}", now)
            .replace("{for_update}", for_update)
            .replace("{serial}", serial);
        match self {
            Sql::Postgres(_) => numbered(&spelled),
            _ => spelled,
        }
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sql")
    }
}

/// Replaces each `?` by `$1`, `$2` and so on.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (i, part) in parts.enumerate() {
        text.push_str(&format!("${}{part}", i + 1));
    }
    text
}

fn mysql_values(values: &[&dyn Value]) -> MySqlArguments {
    let mut arguments = MySqlArguments::default();
    for value in values {
        // Texts and numbers can always be encoded.
        let _ = match value.text() {
            Some(text) => arguments.add(text.to_owned()),
            None => arguments.add(value.number()),
        };
    }
    arguments
}

fn postgres_values(values: &[&dyn Value]) -> PgArguments {
    let mut arguments = PgArguments::default();
    for value in values {
        let _ = match value.text() {
            Some(text) => arguments.add(text.to_owned()),
            None => arguments.add(value.number()),
        };
    }
    arguments
}

fn sqlite_value(value: &dyn Value) -> rusqlite::types::Value {
    match value.text() {
        Some(text) => rusqlite::types::Value::Text(text.to_owned()),
        None => rusqlite::types::Value::Integer(value.number()),
    }
}

fn mysql(error: sqlx::Error) -> Trouble {
    // MySQL reports a deadlock with the code of a serialization failure.
    trouble(error, "40001")
}

fn postgres(error: sqlx::Error) -> Trouble {
    trouble(error, "40P01")
}

fn trouble(error: sqlx::Error, deadlock: &str) -> Trouble {
    match error.as_database_error() {
        Some(database) if database.is_unique_violation() => Trouble::Duplicate,
        Some(database) if database.code().as_deref() == Some(deadlock) => Trouble::Deadlock,
        _ => Trouble::Other(error.to_string()),
    }
}

fn sqlite(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => Trouble::Duplicate,
        _ => Trouble::Other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_numbered() {
        assert_eq!(numbered("a ? b ?"), "a $1 b $2");
        assert_eq!(numbered("none"), "none");
    }
}
