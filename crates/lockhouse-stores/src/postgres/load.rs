//! Locks and loads a footprint: the first of a batch's two packets.

use lockhouse_core::Footprint;

use super::sql::{BEGIN, CLOCK, PERMITS, Text};
use crate::sql::{Script, list, rows};

/// Begins a transaction that locks `footprint`, in its order, and reads the clock last.
///
/// Rows are locked as they leave the sort, so in byte order. A row that somebody else had locked is
/// read again once it is ours; a semaphore whose row appears during that wait is not seen, as if
/// the batch had come before it. The permits are read by a statement of their own, which sees all
/// that was committed until the locks were held: what reads in the statement that locks would see
/// what was there before the wait.
///
/// Permits are not locked: they change only with their request.
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
        script.add(format_args!(
            "SELECT {} FROM (SELECT r.id FROM lockhouse_permit_request r \
             WHERE r.external_id IN ({external_ids}) OFFSET 0) r {PERMITS}",
            rows::PERMIT
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
