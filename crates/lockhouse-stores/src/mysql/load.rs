//! How the first of a batch's two packets locks and loads a footprint.
//!
//! READ COMMITTED locks no gaps, so missing rows lock nothing, and each read sees the latest commits.

use crate::sql::{ByKey, Script, list, rows};

/// The indexes are forced. The server may think a scan of a small table cheaper, but a scan would
/// lock other rows too, and in another order. With the index, rows are locked in its order, which
/// is byte order.
pub(super) const BY_KEY: [ByKey; 3] = [
    ByKey {
        table: "lockhouse_semaphore s FORCE INDEX (name)",
        key: "s.name",
    },
    ByKey {
        table: "lockhouse_permit_request r FORCE INDEX (external_id)",
        key: "r.external_id",
    },
    ByKey {
        table: "lockhouse_owner_session w FORCE INDEX (PRIMARY)",
        key: "w.owner",
    },
];

/// A statement that waits for all its locks for at most half a second (P13). MySQL reads the hint,
/// and MariaDB the first comment.
pub(super) const SELECT: &str = "/*M! SET STATEMENT max_statement_time=0.5 FOR */ \
    SELECT /*+ MAX_EXECUTION_TIME(500) */";

/// The permits of the requests `ids`. The requests are locked; their permits need no lock, since
/// they never change.
pub(super) fn permits(ids: &[u64]) -> Script {
    Script::within(format_args!(
        "SELECT {} FROM lockhouse_permit p FORCE INDEX (PRIMARY) \
         STRAIGHT_JOIN lockhouse_semaphore s FORCE INDEX (PRIMARY) ON s.id=p.semaphore_id \
         WHERE p.permit_request_id IN ({})",
        rows::PERMIT,
        list(ids)
    ))
}
