//! Locks and loads a footprint: the first of a batch's two packets.

use std::collections::BTreeSet;

use lockhouse_core::{ExternalId, Footprint};

use super::MySqlServer;
use super::sql::{BEGIN, CLOCK, Text};
use crate::sql::{ByKey, Script, add_unlocked, list, rows};

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
const SELECT: &str = "/*M! SET STATEMENT max_statement_time=0.5 FOR */ \
    SELECT /*+ MAX_EXECUTION_TIME(500) */";

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last. READ
/// COMMITTED locks no gaps, so missing rows lock nothing, and each read sees the latest commits.
pub(super) fn script(footprint: &Footprint) -> Script {
    let mut script = Script::transaction(BEGIN);
    let mut add = |columns: &str, ByKey { table, key }: &ByKey, keys: String| {
        if !keys.is_empty() {
            script.add(format_args!(
                "{SELECT} {columns} FROM {table} WHERE {key} IN ({keys}) ORDER BY {key} FOR UPDATE"
            ));
        }
    };
    let [semaphores, requests, owners] = &BY_KEY;
    let names = list(footprint.semaphores.iter().map(|name| Text(name.as_str())));
    add(rows::SEMAPHORE, semaphores, names);
    let ids = list(footprint.requests.iter().map(|id| Text(id.as_str())));
    add(rows::REQUEST, requests, ids);
    let names = list(footprint.owners.iter().map(|owner| Text(owner.as_str())));
    add(rows::SESSION, owners, names);
    add_unlocked::<MySqlServer>(&mut script, footprint);
    script.add(CLOCK);
    script
}

/// The SELECT of those of `ids` that exist.
pub(super) fn known(ids: &BTreeSet<&ExternalId>) -> String {
    format!(
        "SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (external_id) WHERE r.external_id IN ({})",
        list(ids.iter().map(|id| Text(id.as_str())))
    )
}

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
