//! The history in order and by requests, as the checks use it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{self, Facts};
use crate::history::rows::Rows;
use crate::history::{Moved, Operation};

/// A history in order, by requests.
pub(super) struct Scene<'a> {
    pub(super) rows: Option<&'a Rows>,
    /// In the order in which they were begun.
    pub(super) operations: Vec<&'a Operation>,
    pub(super) requests: BTreeMap<&'a str, Facts<'a>>,
    pub(super) moved: &'a Moved,
    /// The age at which a request without a TTL is stale.
    pub(super) stale_after: Duration,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        operations: &'a [Operation],
        rows: Option<&'a Rows>,
        moved: &'a Moved,
        stale_after: Duration,
    ) -> Self {
        let mut operations: Vec<_> = operations.iter().collect();
        operations.sort_by_key(|operation| operation.begun);
        let requests = facts::by_request(&operations, rows, moved);
        Self {
            rows,
            operations,
            requests,
            moved,
            stale_after,
        }
    }
}
