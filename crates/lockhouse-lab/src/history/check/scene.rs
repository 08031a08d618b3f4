//! The history in order and by requests, as the checks use it.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse::Upkeep;

use super::facts::{self, Facts};
use crate::history::rows::Rows;
use crate::history::{Moved, Operation};

/// The facts about a history that neither it nor the rows tell.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// How the store's clock was moved.
    pub moved: Moved,
    /// The age at which the upkeep ends a request without a TTL as stale.
    pub stale_after: Duration,
    /// The times at which a process may have been unable to work, each until all processes work again. A waiter that left at
    /// such a time may still be in the line, as its process could not remove it.
    pub away: Vec<(u64, u64)>,
}

impl Default for Circumstances {
    fn default() -> Self {
        Self {
            moved: Moved::default(),
            stale_after: Upkeep::default().stale_after,
            away: Vec::new(),
        }
    }
}

/// A history in order, by requests.
pub(super) struct Scene<'a> {
    pub(super) rows: Option<&'a Rows>,
    /// All operations, in the order in which they were begun.
    pub(super) operations: Vec<&'a Operation>,
    pub(super) requests: BTreeMap<&'a str, Facts<'a>>,
    pub(super) moved: &'a Moved,
    pub(super) stale_after: Duration,
    away: &'a [(u64, u64)],
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        operations: &'a [Operation],
        rows: Option<&'a Rows>,
        circumstances: &'a Circumstances,
    ) -> Self {
        let mut operations: Vec<_> = operations.iter().collect();
        operations.sort_by_key(|operation| operation.begun);
        let moved = &circumstances.moved;
        let requests = facts::by_request(&operations, rows, moved);
        Self {
            rows,
            operations,
            requests,
            moved,
            stale_after: circumstances.stale_after,
            away: &circumstances.away,
        }
    }

    /// Whether a process may have been unable to work during `operation`.
    pub(super) fn is_troubled(&self, operation: &Operation) -> bool {
        let mut away = self.away.iter();
        away.any(|(from, to)| *from <= operation.ended && operation.begun <= *to)
    }
}
