//! The answers that callers got so far.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse::ExternalId;

#[derive(Debug, Default)]
pub(super) struct Answers {
    open: BTreeMap<ExternalId, u32>,
    /// Requests on which a call may take effect at any time.
    pub(super) muddled: BTreeSet<ExternalId>,
    /// Requests for which the reply to an end was lost.
    pub(super) ends_lost: BTreeSet<ExternalId>,
    /// Requests that a caller was told to have ended.
    pub(super) ended: BTreeSet<ExternalId>,
    /// Requests that a caller was told to have been granted now.
    pub(super) granted: BTreeSet<ExternalId>,
}

impl Answers {
    pub(super) fn lose_ends(&mut self, ids: impl Iterator<Item = ExternalId>) {
        self.ends_lost.extend(ids);
    }

    pub(super) fn begin(&mut self, id: &ExternalId) {
        let open = self.open.entry(id.clone()).or_default();
        *open += 1;
        if *open > 1 {
            self.muddled.insert(id.clone());
        }
    }

    pub(super) fn end(&mut self, id: &ExternalId) {
        if let Some(open) = self.open.get_mut(id) {
            *open -= 1;
        }
    }
}
