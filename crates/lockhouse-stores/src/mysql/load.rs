//! Locks and loads a footprint: the first of a batch's two packets.

use std::collections::BTreeSet;

use lockhouse_core::{ExternalId, Footprint};

use super::sql::{BEGIN, CLOCK, Text};
use crate::sql::{Script, list, rows};

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last.
///
/// The indexes are forced: a scan of a small table, which the server may think cheaper, would lock
/// rows that are not asked for, and in another order. With them the rows are locked in the order
/// of the index, which is byte order. READ COMMITTED locks no gaps, so what is missing locks
/// nothing.
///
pub(super) fn script(footprint: &Footprint, locks: bool) -> Script {
    let lock = if locks { "FOR UPDATE" } else { "" };
    let mut script = Script::transaction(BEGIN);
    if !footprint.semaphores.is_empty() {
        let names = list(footprint.semaphores.iter().map(|name| Text(name.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) \
             WHERE s.name IN ({names}) ORDER BY s.name {lock}",
            rows::SEMAPHORE
        ));
    }
    if !footprint.requests.is_empty() {
        let external_ids = list(footprint.requests.iter().map(|id| Text(id.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_permit_request r FORCE INDEX (external_id) \
             WHERE r.external_id IN ({external_ids}) ORDER BY r.external_id {lock}",
            rows::REQUEST
        ));
    }
    if !footprint.owners.is_empty() {
        let owners = list(footprint.owners.iter().map(|owner| Text(owner.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_owner_session w FORCE INDEX (PRIMARY) \
             WHERE w.owner IN ({owners}) ORDER BY w.owner {lock}",
            rows::SESSION
        ));
    }
    script.add(CLOCK);
    script
}

/// The SELECT of those of `ids` that there are.
pub(super) fn known(ids: &BTreeSet<&ExternalId>) -> String {
    format!(
        "SELECT r.id FROM lockhouse_permit_request r FORCE INDEX (external_id) WHERE r.external_id IN ({})",
        list(ids.iter().map(|id| Text(id.as_str())))
    )
}

/// The permits of the requests of `ids`, which are locked. Theirs are not: they never change.
pub(super) fn permits(ids: &[u64]) -> Script {
    Script::within(format_args!(
        "SELECT {} FROM lockhouse_permit p FORCE INDEX (PRIMARY) \
         STRAIGHT_JOIN lockhouse_semaphore s FORCE INDEX (PRIMARY) ON s.id=p.semaphore_id \
         WHERE p.permit_request_id IN ({})",
        rows::PERMIT,
        list(ids)
    ))
}
