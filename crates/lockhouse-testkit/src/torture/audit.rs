//! Audits the rows of the running segment while clients work on it. Each audit must find P1, P2, P3, P7 and P8 kept, and
//! be consistent with the audits before: a row changes by renewals until it ends, and not after that; none is deleted; and fences rise.

use std::collections::HashMap;

use super::segment::{Segment, TEMPLATE};
use crate::history::{Moved, audit};
use crate::rows::{PermitRow, Rows};

/// The rows of a segment at the last audit.
#[derive(Debug, Default)]
pub(super) struct Auditor {
    seen: HashMap<(String, String), PermitRow>,
    fences: HashMap<String, i64>,
}

impl Auditor {
    /// The violations in `rows`, in words. The store's clock was `moved`.
    pub(super) fn look(&mut self, segment: Segment, rows: Rows, moved: &Moved) -> Vec<String> {
        let keyed = segment.name(TEMPLATE.0.trim_end_matches('*'));
        let broken = audit::broken(&rows, moved, |name| name.starts_with(&keyed));
        let mut found: Vec<_> = broken.iter().map(ToString::to_string).collect();
        let mut seen = HashMap::with_capacity(rows.permits.len());
        for row in rows.permits {
            let key = (row.external_id.clone(), row.semaphore.clone());
            match self.seen.remove(&key) {
                Some(was) if !goes_on_as(&was, &row) => {
                    found.push(format!("P3: {was:?} became {row:?}"));
                }
                None if self.fences.get(&row.semaphore) >= Some(&row.fence) => {
                    found.push(format!("P7: a later grant has an earlier fence: {row:?}"));
                }
                _ => {}
            }
            seen.insert(key, row);
        }
        let gone = self.seen.values();
        found.extend(gone.map(|row| format!("P3: a row is gone: {row:?}")));
        self.seen = seen;
        for row in rows.semaphores {
            let last = self.fences.insert(row.name.clone(), row.fence);
            if last > Some(row.fence) {
                found.push(format!("P7: the fence went back from {last:?}: {row:?}"));
            }
        }
        found
    }
}

/// Whether a permit may have become `now`: it ends once, and only renewals change its expiry.
fn goes_on_as(was: &PermitRow, now: &PermitRow) -> bool {
    let mut was = was.clone();
    if was.released_at.is_none() {
        was.state.clone_from(&now.state);
        was.end_reason.clone_from(&now.end_reason);
        (was.expires_at, was.released_at) = (now.expires_at, now.released_at);
    }
    was == *now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::SemaphoreRow;

    type Permit<'a> = (i64, Option<(i64, &'a str)>);

    fn rows(fence: i64, permits: &[Permit<'_>]) -> Rows {
        let permit = |&(fence, ended): &Permit<'_>| PermitRow {
            external_id: format!("r{fence}"),
            semaphore: "s".into(),
            count: 1,
            fence,
            slots: None,
            owner: None,
            state: ended.map_or("ACQUIRED", |_| "RELEASED").into(),
            end_reason: ended.map(|(_, reason)| reason.into()),
            granted_at: fence,
            expires_at: None,
            released_at: ended.map(|(at, _)| at),
        };
        let live = permits.iter().filter(|(_, ended)| ended.is_none());
        let semaphore = SemaphoreRow {
            name: "s".into(),
            capacity: 2,
            in_use: live.count() as i64,
            fence,
            created_at: 0,
            is_deleted: false,
        };
        Rows {
            semaphores: vec![semaphore],
            permits: permits.iter().map(permit).collect(),
            capacity_changes: Vec::new(),
        }
    }

    fn found(looks: impl IntoIterator<Item = Rows>) -> Vec<String> {
        let mut auditor = Auditor::default();
        let found = looks
            .into_iter()
            .map(|rows| auditor.look(Segment(1), rows, &Moved::default()));
        let found = found.flatten().map(|text| text[..2].to_owned());
        found.collect()
    }

    #[test]
    fn permits_that_are_granted_and_end_pass() {
        let stale = Some((3, "stale"));
        let looks = [
            rows(2, &[(1, None), (2, stale)]),
            rows(3, &[(1, Some((6, "forced"))), (2, stale), (3, None)]),
        ];
        assert_eq!(found(looks), [""; 0]);
    }

    #[test]
    fn rows_that_change_otherwise_are_caught() {
        let released = Some((5, "released"));
        let pairs = [
            // A permit ends twice, is live again, or is deleted.
            (
                "P3",
                rows(1, &[(1, released)]),
                rows(1, &[(1, Some((6, "stale")))]),
            ),
            ("P3", rows(1, &[(1, released)]), rows(1, &[(1, None)])),
            ("P3", rows(1, &[(1, released)]), rows(1, &[])),
            ("P3", rows(1, &[(1, None)]), rows(1, &[])),
            // A fence goes back, or is handed out late.
            ("P7", rows(2, &[]), rows(1, &[])),
            (
                "P7",
                rows(2, &[(2, None)]),
                rows(2, &[(1, None), (2, None)]),
            ),
            // More permits are held than there are.
            (
                "P1",
                rows(1, &[(1, None)]),
                rows(3, &[(1, None), (2, None), (3, None)]),
            ),
        ];
        for (promise, first, second) in pairs {
            assert_eq!(found([first, second]), [promise]);
        }
    }
}
