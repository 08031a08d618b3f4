//! Writes very many rows at once, with the same content as if the store had written them.

use crate::database::Database;

/// How many rows a statement writes at most.
const PIECE: u32 = 10_000;

/// Inserts `count` rows into each of `tables`: `table (columns) SELECT values`, where `n` counts from
/// 0 on.
pub(super) async fn insert(database: &mut Database, count: u32, tables: &[String]) {
    let digit = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 \
        UNION ALL SELECT 8 UNION ALL SELECT 9)";
    for from in (0..count).step_by(PIECE as usize) {
        let piece = PIECE.min(count - from);
        let numbers = format!(
            "(SELECT n FROM (SELECT {from} + a.d * 1000 + b.d * 100 + c.d * 10 + e.d AS n \
             FROM {digit} a CROSS JOIN {digit} b CROSS JOIN {digit} c CROSS JOIN {digit} e) m \
             WHERE n < {from} + {piece}) numbers"
        );
        for table in tables {
            database
                .run(&format!("INSERT INTO {table} FROM {numbers}"))
                .await;
        }
    }
    // Now the rows are on the disk, like rows that were written long ago.
    database.checkpoint().await;
}

/// An id of `prefix` and `n`. Ids are in no order of time, like those of callers.
pub(super) fn scattered(prefix: &str) -> String {
    format!("CONCAT('{prefix}-', n % 50000 * 40503 % 65536, '-', n)")
}

/// Gives each request a permit of the semaphore `name`, whose fence is past theirs.
pub(super) fn permits_of(name: &str) -> String {
    format!(
        "lockhouse_permit (permit_request_id, semaphore_id, count, fence) \
         SELECT n + 1, {}, 1, n + 1",
        id_of(name)
    )
}

/// The id of the semaphore called `name`.
pub(super) fn id_of(name: &str) -> String {
    format!("(SELECT MIN(id) FROM lockhouse_semaphore WHERE name = '{name}')")
}
