//! Locks and loads a footprint: the first of a batch's two packets.

use std::collections::BTreeSet;

use lockhouse_core::{ExternalId, Footprint};

use super::PostgresServer;
use super::sql::{BEGIN, CLOCK, Text};
use crate::sql::{ByKey, Script, add_unlocked, list, rows};

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

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last.
///
/// Rows are locked as they leave the sort, so in byte order. A row that another transaction had
/// locked is read again once this one has the lock. A semaphore whose row appears during that wait
/// is not seen, as if the batch had come before it.
pub(super) fn script(footprint: &Footprint) -> Script {
    let mut script = Script::transaction(BEGIN);
    let mut add = |columns: &str, ByKey { table, key }: &ByKey, keys: String| {
        if !keys.is_empty() {
            script.add(format_args!(
                "SELECT {columns} FROM {table} WHERE {key} IN ({keys}) ORDER BY {key} FOR UPDATE"
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
    add_unlocked::<PostgresServer>(&mut script, footprint);
    script.add(CLOCK);
    script
}

/// The SELECT of those of `ids` that exist.
pub(super) fn known(ids: &BTreeSet<&ExternalId>) -> String {
    format!(
        "SELECT r.id FROM lockhouse_permit_request r WHERE r.external_id IN ({})",
        list(ids.iter().map(|id| Text(id.as_str())))
    )
}

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
