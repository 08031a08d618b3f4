//! How the SQL stores walk over live requests, page by page, in the order of an index.
//!
//! The indexes of live requests are sorted by the semaphore that a request holds alone (`only_semaphore_id`, 0 if it
//! holds several, or was granted by an older version), then by the request's id, which rises with time. Neither
//! changes while the request lives. So a page begins where the one before ended, and sorts nothing.
//!
//! A walk over the holders of one semaphore first reads the requests that hold several, and looks
//! each up among the permits. Then it reads the requests that hold only this semaphore. A page
//! reads at most [`LOOKED_AT`] of the former, so it may have fewer rows than its limit.

use lockhouse_core::store::{Cursor, Page};

/// The most requests of several semaphores that a page reads, to see whether they hold the wanted
/// semaphore.
const LOOKED_AT: usize = 1_000;

/// The requests that hold several semaphores.
const SEVERAL: u64 = 0;

/// The stretches of the index to read for a page of a walk.
#[derive(Debug)]
pub(crate) struct Walk {
    page: Page<Cursor>,
    stretches: Vec<Stretch>,
}

/// Adjacent entries of the index, to be read in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub(crate) range: IndexRange,
    /// The semaphore among whose permits to look each request up, if any.
    pub(crate) holds: Option<u64>,
    /// The most entries.
    pub(crate) limit: usize,
}

/// Where in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexRange {
    /// In a group, after a row.
    In { group: u64, after: u64 },
    /// In this group and the later ones.
    From { group: u64 },
}

/// An entry of the index that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) at: Cursor,
    /// Whether it holds the semaphore that was to be looked up. True if there was none.
    pub(crate) holds: bool,
}

impl Walk {
    /// A page of the walk over all live requests, or over those that hold permits of the semaphore of the id `on`.
    pub(crate) fn new(on: Option<u64>, page: &Page<Cursor>) -> Self {
        // One more than the limit, to see whether another page follows.
        let limit = page.limit as usize + 1;
        let stretch = |range| Stretch {
            range,
            holds: None,
            limit,
        };
        let after = page.after;
        let stretches = match on {
            None => match after {
                None => vec![stretch(IndexRange::From { group: SEVERAL })],
                Some(Cursor { group, row }) => vec![
                    stretch(IndexRange::In { group, after: row }),
                    stretch(IndexRange::From {
                        group: group.saturating_add(1).min(i64::MAX as u64),
                    }),
                ],
            },
            Some(on) => {
                let own = |after| stretch(IndexRange::In { group: on, after });
                match after.filter(|after| after.group != SEVERAL) {
                    Some(after) => vec![own(after.row)],
                    None => {
                        let after = after.map_or(0, |after| after.row);
                        let range = IndexRange::In {
                            group: SEVERAL,
                            after,
                        };
                        let several = Stretch {
                            holds: Some(on),
                            limit: limit.max(LOOKED_AT),
                            ..stretch(range)
                        };
                        vec![several, own(0)]
                    }
                }
            }
        };
        let page = page.clone();
        Self { page, stretches }
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The ids of the requests of the page, and where the next begins, from the entries `found` on
    /// each stretch. If a stretch was not read to its end, later stretches do not count.
    pub(crate) fn page(
        &self,
        found: impl IntoIterator<Item = Vec<IndexEntry>>,
    ) -> (Vec<u64>, Option<Cursor>) {
        let mut ids = Vec::new();
        let mut looked_to = self.page.after;
        for (stretch, entries) in self.stretches.iter().zip(found) {
            let is_cut = entries.len() >= stretch.limit;
            for IndexEntry { at, holds } in entries {
                if holds && ids.len() == self.page.limit as usize {
                    return (ids, looked_to);
                }
                looked_to = Some(at);
                ids.extend(holds.then_some(at.row));
            }
            if is_cut {
                return (ids, looked_to);
            }
        }
        (ids, None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    type Live = BTreeSet<(u64, u64)>;

    /// All pages of at most `limit`, and how many entries were read for the longest. The requests of several semaphores
    /// that hold semaphore 7 are those with an id that 50 divides.
    fn walked(live: &Live, on: Option<u64>, limit: u32) -> (Vec<u64>, usize) {
        let (mut all, mut most) = (Vec::new(), 0);
        let mut after = None;
        loop {
            let walk = Walk::new(on, &Page { after, limit });
            let read = |stretch: &Stretch| -> Vec<IndexEntry> {
                let is_in = |(group, row): &&(u64, u64)| match stretch.range {
                    IndexRange::In { group: of, after } => *group == of && *row > after,
                    IndexRange::From { group: from } => *group >= from,
                };
                let entry = |&(group, row): &(u64, u64)| IndexEntry {
                    at: Cursor { group, row },
                    holds: stretch.holds.is_none() || row % 50 == 0,
                };
                let entries = live.iter().filter(is_in).map(entry);
                entries.take(stretch.limit).collect()
            };
            let found: Vec<_> = walk.stretches().iter().map(read).collect();
            most = most.max(found.iter().map(Vec::len).sum());
            let (ids, next) = walk.page(found);
            assert!(ids.len() <= limit as usize);
            all.extend(ids);
            match next {
                None => return (all, most),
                next => after = next,
            }
        }
    }

    fn live() -> Live {
        let several = (1..=3_000).map(|row| (0, row));
        let own = (1..=40).map(|row| (7, 2 * row + 5_000));
        let others = (1..=40).map(|row| (9, 2 * row + 5_001));
        several.chain(own).chain(others).collect()
    }

    #[test]
    fn each_request_is_on_one_page() {
        let live = live();
        let all: Vec<_> = live.iter().map(|(_, row)| *row).collect();
        let of_seven = |(group, row): &&(u64, u64)| *group == 7 || (*group == 0 && row % 50 == 0);
        let on_seven: Vec<_> = live.iter().filter(of_seven).map(|(_, row)| *row).collect();
        for limit in [1, 2, 3, 39, 40, 41, 1_000, 5_000] {
            assert_eq!(walked(&live, None, limit).0, all, "{limit}");
            assert_eq!(walked(&live, Some(7), limit).0, on_seven, "{limit}");
            assert!(walked(&live, Some(8), limit).0.len() == 60, "{limit}");
        }
    }

    #[test]
    fn a_page_reads_a_bounded_number_of_entries() {
        assert!(walked(&live(), None, 1).1 <= 4);
        assert!(walked(&live(), Some(7), 1).1 <= LOOKED_AT + 2);
    }

    #[test]
    fn no_page_follows_the_last() {
        let live: Live = [(7, 1), (7, 2)].into();
        let page = Page {
            after: None,
            limit: 2,
        };
        let found = live.iter().map(|&(group, row)| IndexEntry {
            at: Cursor { group, row },
            holds: true,
        });
        let (ids, next) = Walk::new(Some(7), &page).page([Vec::new(), found.collect()]);
        assert_eq!((ids, next), (vec![1, 2], None));
    }
}
