//! Owners who were said to be gone, once so far.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use lockhouse_core::{ExternalId, Owner};
use tokio::time::timeout;

use crate::liveness::{OwnerCheck, Verdict};

/// After so long a check does not know.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who, of those whom one check is for, was said to be gone in the last round, and in this one.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    turn: Option<ExternalId>,
    last_round: HashSet<Owner>,
    this_round: HashSet<Owner>,
}

impl Suspects {
    /// Begins a round of the `turn` that this process has. Whoever was not said to be gone in the
    /// round before, or in another turn, is no suspect any more.
    pub(crate) fn begin_round(&mut self, turn: &ExternalId) {
        self.last_round = std::mem::take(&mut self.this_round);
        if self.turn.as_ref() != Some(turn) {
            self.last_round.clear();
            self.turn = Some(turn.clone());
        }
    }

    /// Whether `owner` is gone, in this round as in the last.
    pub(crate) fn is_confirmed(&mut self, owner: &Owner, verdict: Verdict) -> bool {
        if verdict != Verdict::Gone {
            return false;
        }
        // One who is confirmed stays a suspect, should ending what it holds fail.
        self.this_round.insert(owner.clone());
        self.last_round.contains(owner)
    }
}

/// What `check` says of each of `owners`, as it says it.
pub(crate) fn verdicts(
    check: &Arc<dyn OwnerCheck>,
    owners: impl Iterator<Item = Owner>,
) -> impl Stream<Item = (Owner, Verdict)> {
    let asked = owners.map(|owner| {
        let check = Arc::clone(check);
        async move { (owner.clone(), verdict(check, owner).await) }
    });
    stream::iter(asked).buffer_unordered(check.at_once().max(1))
}

/// In a task of its own: a check that panics does not know either.
async fn verdict(check: Arc<dyn OwnerCheck>, owner: Owner) -> Verdict {
    let asked = tokio::spawn(async move { timeout(PATIENCE, check.verdict(&owner)).await });
    match asked.await {
        Ok(Ok(verdict)) => verdict,
        _ => Verdict::Unknown,
    }
}
