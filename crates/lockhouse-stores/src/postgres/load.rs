//! How the first of a batch's two packets locks and loads a footprint.
//!
//! Rows are locked as they leave the sort, so in byte order. A row that another transaction had
//! locked is read again once this one has the lock. A semaphore whose row appears during that wait
//! is not seen, as if the batch had come before it.

use crate::sql::{ByKey, Script, list, rows};

pub(super) const BY_KEY: [ByKey; 3] = [
    ByKey {
        table: "lockhouse_semaphore s",
        key: "s.name",
    },
    ByKey {
        table: "lockhouse_permit_request r",
        key: "r.external_id",
    },
    ByKey {
        table: "lockhouse_owner_session w",
        key: "w.owner",
    },
];

/// The permits of the requests `ids`. The requests are locked; their permits need no lock, since
/// they never change. This is a separate statement, so that it sees every commit from before the
/// locks were held. A statement that locks sees only rows from before its wait.
pub(super) fn permits(ids: &[u64]) -> Script {
    Script::within(format_args!(
        "SELECT {} FROM lockhouse_permit p CROSS JOIN LATERAL (\
         SELECT s.name FROM lockhouse_semaphore s WHERE s.id=p.semaphore_id OFFSET 0) s \
         WHERE p.permit_request_id IN ({})",
        rows::PERMIT,
        list(ids)
    ))
}
