//! Locks and loads a footprint: the first of a batch's two packets.

use std::collections::BTreeSet;

use lockhouse_core::{ExternalId, Footprint};

use super::sql::{BEGIN, CLOCK, Text};
use crate::sql::{Script, list, rows};

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last.
///
/// Rows are locked as they leave the sort, so in byte order. A row that somebody else had locked is
/// read again once it is ours; a semaphore whose row appears during that wait is not seen, as if
/// the batch had come before it.
pub(super) fn script(footprint: &Footprint, locks: bool) -> Script {
    let lock = if locks { "FOR UPDATE" } else { "" };
    let mut script = Script::transaction(BEGIN);
    if !footprint.semaphores.is_empty() {
        let names = list(footprint.semaphores.iter().map(|name| Text(name.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_semaphore s WHERE s.name IN ({names}) ORDER BY s.name {lock}",
            rows::SEMAPHORE
        ));
    }
    if !footprint.requests.is_empty() {
        let external_ids = list(footprint.requests.iter().map(|id| Text(id.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_permit_request r WHERE r.external_id IN ({external_ids}) \
             ORDER BY r.external_id {lock}",
            rows::REQUEST
        ));
    }
    if !footprint.owners.is_empty() {
        let owners = list(footprint.owners.iter().map(|owner| Text(owner.as_str())));
        script.add(format_args!(
            "SELECT {} FROM lockhouse_owner_session w WHERE w.owner IN ({owners}) \
             ORDER BY w.owner {lock}",
            rows::SESSION
        ));
    }
    script.add(CLOCK);
    script
}

/// The SELECT of those of `ids` that there are.
pub(super) fn known(ids: &BTreeSet<&ExternalId>) -> String {
    format!(
        "SELECT r.id FROM lockhouse_permit_request r WHERE r.external_id IN ({})",
        list(ids.iter().map(|id| Text(id.as_str())))
    )
}

/// The permits of the requests of `ids`, which are locked. Theirs are not: they never change. In a
/// statement of its own, which sees all that was committed until the locks were held; one that
/// locks sees what was there before it waited.
pub(super) fn permits(ids: &[u64]) -> Script {
    Script::within(format_args!(
        "SELECT {} FROM lockhouse_permit p CROSS JOIN LATERAL (\
         SELECT s.name FROM lockhouse_semaphore s WHERE s.id=p.semaphore_id OFFSET 0) s \
         WHERE p.permit_request_id IN ({})",
        rows::PERMIT,
        list(ids)
    ))
}
