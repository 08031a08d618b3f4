//! The SQL that a caller's database speaks. The SQL of the stores is apart: `lockhouse-stores/src/sql/dialect.rs`.

use std::fmt;

/// The kind of a database that takes SQL, for statements that a caller runs itself.
///
/// ```
/// use lockhouse_core::SqlDialect;
///
/// let names = SqlDialect::ALL.map(SqlDialect::as_str);
/// assert_eq!(names, ["MySQL", "MariaDB", "PostgreSQL", "SQLite"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlDialect {
    /// MySQL 8.0.17 or newer.
    MySql,
    /// MariaDB 10.5 or newer.
    MariaDb,
    /// PostgreSQL.
    Postgres,
    /// SQLite 3.35 or newer.
    Sqlite,
}

impl SqlDialect {
    /// All dialects.
    pub const ALL: [SqlDialect; 4] = [
        SqlDialect::MySql,
        SqlDialect::MariaDb,
        SqlDialect::Postgres,
        SqlDialect::Sqlite,
    ];

    /// The database's name in the docs.
    pub const fn as_str(self) -> &'static str {
        match self {
            SqlDialect::MySql => "MySQL",
            SqlDialect::MariaDb => "MariaDB",
            SqlDialect::Postgres => "PostgreSQL",
            SqlDialect::Sqlite => "SQLite",
        }
    }
}

impl fmt::Display for SqlDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
