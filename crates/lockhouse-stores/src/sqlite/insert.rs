//! Inserts many rows in one statement, since beginning and ending a statement takes longer than
//! writing a row.

use lockhouse_core::store::Error;
use rusqlite::{CachedStatement, Connection, Error as Driver, ToSql};

use super::error::cannot;

/// The numbers of rows in a statement, largest first. A few sizes suffice for any number of rows,
/// and each is prepared once.
const SIZES: [usize; 4] = [32, 8, 2, 1];

/// The parameters of a statement, bound row by row.
pub(super) struct Values<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    bound: usize,
}

impl Values<'_, '_> {
    pub(super) fn bind(&mut self, row: &[&dyn ToSql]) -> Result<(), Error> {
        for value in row {
            self.bound += 1;
            self.statement
                .raw_bind_parameter(self.bound, value)
                .map_err(cannot("bind a value"))?;
        }
        Ok(())
    }
}

/// Inserts `rows` in their order by `sql`, which is for one row and ends in `VALUES (?, …)`. `bind`
/// binds the values of each. `doing` is for errors.
pub(super) fn rows<R>(
    connection: &Connection,
    sql: &str,
    mut rows: &[R],
    doing: &'static str,
    mut bind: impl FnMut(&mut Values<'_, '_>, &R) -> Result<(), Error>,
) -> Result<(), Error> {
    for size in SIZES {
        while let Some((now, later)) = rows.split_at_checked(size) {
            let mut statement = prepare(connection, sql, size).map_err(cannot(doing))?;
            let mut values = Values {
                statement: &mut statement,
                bound: 0,
            };
            for row in now {
                bind(&mut values, row)?;
            }
            statement.raw_execute().map_err(cannot(doing))?;
            rows = later;
        }
    }
    Ok(())
}

/// Prepares `sql`, which is for one row, for `size` rows.
fn prepare<'c>(
    connection: &'c Connection,
    sql: &str,
    size: usize,
) -> Result<CachedStatement<'c>, Driver> {
    let row = sql.rfind('(').map_or("", |begins| &sql[begins..]);
    let mut sql = sql.to_owned();
    for _ in 1..size {
        sql.push(',');
        sql.push_str(row);
    }
    connection.prepare_cached(&sql)
}
