//! A database's own rows, read in one snapshot. Tests compare answers to clients with them.

pub use lockhouse_lab::history::rows::{CapacityChangeRow, PermitRow, Rows, SemaphoreRow};
use rusqlite::OpenFlags;
use sqlx::{ColumnIndex, Connection, Decode, MySqlConnection, PgConnection, Row};

use crate::redis;
use crate::statement::is_postgres;

const SEMAPHORES: &str = "SELECT name, CAST(capacity AS {integer}), CAST(in_use AS {integer}), \
    CAST(fence AS {integer}), CAST(CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END AS {integer}), \
    {semaphore_created_at} \
    FROM lockhouse_semaphore s WHERE {of}";

const PERMITS: &str = "SELECT r.external_id, s.name, CAST(p.count AS {integer}), \
    CAST(p.fence AS {integer}), r.state, r.end_reason, {created_at}, {expires_at}, {released_at}, r.owner, p.slots \
    FROM lockhouse_permit p \
    JOIN lockhouse_permit_request r ON r.id = p.permit_request_id \
    JOIN lockhouse_semaphore s ON s.id = p.semaphore_id WHERE {of_requests}";

/// The capacity changes, in the order in which they were made.
const CAPACITY_CHANGES: &str = "SELECT s.name, CAST(c.old_capacity AS {integer}), \
    CAST(c.new_capacity AS {integer}), {changed_at} FROM lockhouse_capacity_change c \
    JOIN lockhouse_semaphore s ON s.id = c.semaphore_id WHERE {of} ORDER BY c.changed_at, c.id";

/// The queries for semaphores, permits and capacity changes. `integer` is the database's type of an integer. `time` turns a
/// column of times into microseconds.
fn queries(prefix: &str, integer: &str, time: impl Fn(&str) -> String) -> [String; 3] {
    // An index serves a range, and not every LIKE. Only ASCII characters follow the prefix.
    let of = |column: &str| match prefix {
        "" => "1 = 1".to_owned(),
        _ => format!("{column} >= '{prefix}' AND {column} < '{prefix}~'"),
    };
    [SEMAPHORES, PERMITS, CAPACITY_CHANGES].map(|query| {
        query
            .replace("{of}", &of("s.name"))
            .replace("{of_requests}", &of("r.external_id"))
            .replace("{integer}", integer)
            .replace("{semaphore_created_at}", &time("s.created_at"))
            .replace("{created_at}", &time("r.created_at"))
            .replace("{expires_at}", &time("r.expires_at"))
            .replace("{released_at}", &time("r.released_at"))
            .replace("{changed_at}", &time("c.changed_at"))
    })
}

/// Reads the rows of the store at `url`.
pub async fn read(url: &str) -> Rows {
    read_of(url, "").await
}

/// Reads the rows of the requests and the semaphores whose names begin with `prefix`: letters, digits
/// and dashes.
pub async fn read_of(url: &str, prefix: &str) -> Rows {
    let at = url.split('?').next().unwrap();
    match at.strip_prefix("sqlite:") {
        Some(path) => sqlite(path, prefix),
        None if redis::is_redis(at) => redis::rows(url, prefix).await,
        None if is_postgres(at) => postgres(at, prefix).await,
        None => mysql(at, prefix).await,
    }
}

/// A line for each row: of semaphores, permits and capacity changes.
pub(crate) fn lines(rows: &Rows) -> impl Iterator<Item = String> {
    let semaphores = rows.semaphores.iter().map(|row| format!("{row:?}"));
    let permits = rows.permits.iter().map(|row| format!("{row:?}"));
    let changes = rows.capacity_changes.iter().map(|row| format!("{row:?}"));
    semaphores.chain(permits).chain(changes)
}

fn sqlite(path: &str, prefix: &str) -> Rows {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let mut connection = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    let snapshot = connection.transaction().unwrap();
    let [semaphores, permits, changes] = queries(prefix, "INTEGER", str::to_owned);
    let mut semaphores = snapshot.prepare(&semaphores).unwrap();
    let mut permits = snapshot.prepare(&permits).unwrap();
    let mut changes = snapshot.prepare(&changes).unwrap();
    Rows {
        semaphores: semaphores
            .query_map((), |row| {
                Ok(SemaphoreRow {
                    name: row.get(0)?,
                    capacity: row.get(1)?,
                    in_use: row.get(2)?,
                    fence: row.get(3)?,
                    is_deleted: row.get(4)?,
                    created_at: row.get(5)?,
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        permits: permits
            .query_map((), |row| {
                Ok(PermitRow {
                    external_id: row.get(0)?,
                    semaphore: row.get(1)?,
                    count: row.get(2)?,
                    fence: row.get(3)?,
                    slots: row.get(10)?,
                    owner: row.get(9)?,
                    state: row.get(4)?,
                    end_reason: row.get(5)?,
                    granted_at: row.get(6)?,
                    expires_at: row.get(7)?,
                    released_at: row.get(8)?,
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        capacity_changes: changes
            .query_map((), |row| {
                Ok(CapacityChangeRow {
                    semaphore: row.get(0)?,
                    old_capacity: row.get(1)?,
                    new_capacity: row.get(2)?,
                    changed_at: row.get(3)?,
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect(),
    }
}

async fn mysql(url: &str, prefix: &str) -> Rows {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    let set = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    sqlx::raw_sql(set).execute(&mut connection).await.unwrap();
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    sqlx::raw_sql(begin).execute(&mut connection).await.unwrap();
    let queries = queries(prefix, "SIGNED", |column| {
        format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})")
    });
    let mut found = [const { Vec::new() }; 3];
    for (found, query) in found.iter_mut().zip(&queries) {
        let rows = sqlx::query(query).fetch_all(&mut connection);
        *found = rows.await.unwrap();
    }
    connection.close().await.unwrap();
    rows(&found)
}

async fn postgres(url: &str, prefix: &str) -> Rows {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    sqlx::raw_sql(begin).execute(&mut connection).await.unwrap();
    let queries = queries(prefix, "bigint", |column| {
        format!("CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS bigint)")
    });
    let mut found = [const { Vec::new() }; 3];
    for (found, query) in found.iter_mut().zip(&queries) {
        let rows = sqlx::query(query).fetch_all(&mut connection);
        *found = rows.await.unwrap();
    }
    connection.close().await.unwrap();
    rows(&found)
}

/// The rows of semaphores, permits and capacity changes.
fn rows<R: Row>([semaphores, permits, changes]: &[Vec<R>; 3]) -> Rows
where
    usize: ColumnIndex<R>,
    for<'r> Option<Vec<u8>>: Decode<'r, R::Database>,
    for<'r> i64: Decode<'r, R::Database>,
    for<'r> Option<i64>: Decode<'r, R::Database>,
{
    let number = |row: &R, column: usize| row.try_get_unchecked::<i64, _>(column).unwrap();
    Rows {
        semaphores: semaphores
            .iter()
            .map(|row| SemaphoreRow {
                name: text(row, 0).unwrap(),
                capacity: number(row, 1),
                in_use: number(row, 2),
                fence: number(row, 3),
                is_deleted: number(row, 4) == 1,
                created_at: number(row, 5),
            })
            .collect(),
        permits: permits
            .iter()
            .map(|row| PermitRow {
                external_id: text(row, 0).unwrap(),
                semaphore: text(row, 1).unwrap(),
                count: number(row, 2),
                fence: number(row, 3),
                slots: text(row, 10),
                owner: text(row, 9),
                state: text(row, 4).unwrap(),
                end_reason: text(row, 5),
                granted_at: number(row, 6),
                expires_at: row.try_get_unchecked(7).unwrap(),
                released_at: row.try_get_unchecked(8).unwrap(),
            })
            .collect(),
        capacity_changes: changes
            .iter()
            .map(|row| CapacityChangeRow {
                semaphore: text(row, 0).unwrap(),
                old_capacity: number(row, 1),
                new_capacity: number(row, 2),
                changed_at: number(row, 3),
            })
            .collect(),
    }
}

/// Text with a binary collation comes as bytes.
fn text<R: Row>(row: &R, column: usize) -> Option<String>
where
    usize: ColumnIndex<R>,
    for<'r> Option<Vec<u8>>: Decode<'r, R::Database>,
{
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column).unwrap();
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}
