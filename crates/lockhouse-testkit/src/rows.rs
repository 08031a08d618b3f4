//! A database's own rows, read in one snapshot: what is true, whatever the clients believe.

use rusqlite::OpenFlags;
use sqlx::mysql::MySqlRow;
use sqlx::{Connection, MySqlConnection, Row};

/// All the rows that say who holds what, and who held it.
#[derive(Debug, Default)]
pub struct Rows {
    /// Every semaphore.
    pub semaphores: Vec<SemaphoreRow>,
    /// Every permit ever granted.
    pub permits: Vec<PermitRow>,
    /// Every change of a capacity.
    pub capacity_changes: Vec<CapacityChangeRow>,
}

/// A row of `lockhouse_semaphore`.
#[derive(Debug)]
pub struct SemaphoreRow {
    pub name: String,
    pub capacity: i64,
    pub in_use: i64,
    pub fence: i64,
}

/// A row of `lockhouse_permit` with its request.
#[derive(Debug)]
pub struct PermitRow {
    pub external_id: String,
    pub semaphore: String,
    pub count: i64,
    pub fence: i64,
    pub state: String,
    pub request_state: String,
    pub end_reason: Option<String>,
    /// Microseconds.
    pub granted_at: i64,
    /// Microseconds.
    pub expires_at: Option<i64>,
    /// Microseconds.
    pub released_at: Option<i64>,
}

/// A row of `lockhouse_capacity_change`.
#[derive(Debug)]
pub struct CapacityChangeRow {
    pub semaphore: String,
    pub old_capacity: i64,
    pub new_capacity: i64,
    /// Microseconds.
    pub changed_at: i64,
}

const SEMAPHORES: &str = "SELECT name, CAST(capacity AS SIGNED) AS capacity, \
    CAST(in_use AS SIGNED) AS in_use, CAST(fence AS SIGNED) AS fence FROM lockhouse_semaphore";

/// `{…}` are the columns that hold times, as each kind of database gives their microseconds.
const PERMITS: &str = "SELECT r.external_id, s.name, CAST(p.count AS SIGNED), \
    CAST(p.fence AS SIGNED), p.state, r.state, r.end_reason, {created_at}, {expires_at}, {released_at} \
    FROM lockhouse_permit p \
    JOIN lockhouse_permit_request r ON r.id = p.permit_request_id \
    JOIN lockhouse_semaphore s ON s.id = p.semaphore_id";

/// In the order in which they were made.
const CAPACITY_CHANGES: &str = "SELECT s.name, CAST(c.old_capacity AS SIGNED), \
    CAST(c.new_capacity AS SIGNED), {changed_at} FROM lockhouse_capacity_change c \
    JOIN lockhouse_semaphore s ON s.id = c.semaphore_id ORDER BY c.changed_at, c.id";

/// Reads the rows of the store at `url`.
pub async fn read(url: &str) -> Rows {
    match url.strip_prefix("sqlite:") {
        Some(path) => sqlite(path.split('?').next().unwrap()),
        None => mysql(url.split('?').next().unwrap()).await,
    }
}

fn sqlite(path: &str) -> Rows {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let mut connection = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    let snapshot = connection.transaction().unwrap();
    let permits = PERMITS
        .replace("{created_at}", "r.created_at")
        .replace("{expires_at}", "r.expires_at")
        .replace("{released_at}", "r.released_at")
        .replace("AS SIGNED", "AS INTEGER");
    let mut semaphores = snapshot
        .prepare(&SEMAPHORES.replace("AS SIGNED", "AS INTEGER"))
        .unwrap();
    let mut permits = snapshot.prepare(&permits).unwrap();
    let capacity_changes = CAPACITY_CHANGES
        .replace("{changed_at}", "c.changed_at")
        .replace("AS SIGNED", "AS INTEGER");
    let mut capacity_changes = snapshot.prepare(&capacity_changes).unwrap();
    Rows {
        semaphores: semaphores
            .query_map((), |row| {
                Ok(SemaphoreRow {
                    name: row.get(0)?,
                    capacity: row.get(1)?,
                    in_use: row.get(2)?,
                    fence: row.get(3)?,
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
                    state: row.get(4)?,
                    request_state: row.get(5)?,
                    end_reason: row.get(6)?,
                    granted_at: row.get(7)?,
                    expires_at: row.get(8)?,
                    released_at: row.get(9)?,
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        capacity_changes: capacity_changes
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

async fn mysql(url: &str) -> Rows {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    let set = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    sqlx::raw_sql(set).execute(&mut connection).await.unwrap();
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    sqlx::raw_sql(begin).execute(&mut connection).await.unwrap();
    let micros = |column: &str| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})");
    let permits = PERMITS
        .replace("{created_at}", &micros("r.created_at"))
        .replace("{expires_at}", &micros("r.expires_at"))
        .replace("{released_at}", &micros("r.released_at"));
    let capacity_changes = CAPACITY_CHANGES.replace("{changed_at}", &micros("c.changed_at"));
    let semaphores = sqlx::query(SEMAPHORES)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let permits = sqlx::query(&permits)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let capacity_changes = sqlx::query(&capacity_changes)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    Rows {
        semaphores: semaphores
            .into_iter()
            .map(|row| SemaphoreRow {
                name: text(&row, 0).unwrap(),
                capacity: row.get(1),
                in_use: row.get(2),
                fence: row.get(3),
            })
            .collect(),
        permits: permits
            .into_iter()
            .map(|row| PermitRow {
                external_id: text(&row, 0).unwrap(),
                semaphore: text(&row, 1).unwrap(),
                count: row.get(2),
                fence: row.get(3),
                state: text(&row, 4).unwrap(),
                request_state: text(&row, 5).unwrap(),
                end_reason: text(&row, 6),
                granted_at: row.get(7),
                expires_at: row.get(8),
                released_at: row.get(9),
            })
            .collect(),
        capacity_changes: capacity_changes
            .into_iter()
            .map(|row| CapacityChangeRow {
                semaphore: text(&row, 0).unwrap(),
                old_capacity: row.get(1),
                new_capacity: row.get(2),
                changed_at: row.get(3),
            })
            .collect(),
    }
}

/// Text with a binary collation comes as bytes.
fn text(row: &MySqlRow, column: usize) -> Option<String> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column).unwrap();
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}
