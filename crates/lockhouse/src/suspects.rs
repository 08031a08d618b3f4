//! Owners that a check has found gone once so far.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use lockhouse_core::{ExternalId, Owner};
use tokio::time::timeout;

use crate::liveness::{OwnerCheck, Verdict};

/// How long a check may take. An answer that takes longer counts as "unknown".
const PATIENCE: Duration = Duration::from_secs(10);

/// The owners that one check found gone in the last round, and in this one.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    turn: Option<ExternalId>,
    last_round: HashSet<Owner>,
    this_round: HashSet<Owner>,
}

impl Suspects {
    /// Begins a round of checks. `turn` is the request by which this process does the upkeep. Owners that were found gone
    /// in the round before remain suspects, unless that round was in another turn.
    pub(crate) fn begin_round(&mut self, turn: &ExternalId) {
        self.last_round = std::mem::take(&mut self.this_round);
        if self.turn.as_ref() != Some(turn) {
            self.last_round.clear();
            self.turn = Some(turn.clone());
        }
    }

    /// Whether `owner` was found gone in this round and in the last.
    pub(crate) fn is_confirmed(&mut self, owner: &Owner, verdict: Verdict) -> bool {
        if verdict != Verdict::Gone {
            return false;
        }
        // A confirmed owner stays a suspect, in case ending its requests fails.
        self.this_round.insert(owner.clone());
        self.last_round.contains(owner)
    }
}

/// The verdicts of `check` on each of `owners`, as they come.
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

/// The verdict on `owner`, from a separate task: a check that panics counts as "unknown".
async fn verdict(check: Arc<dyn OwnerCheck>, owner: Owner) -> Verdict {
    let asked = tokio::spawn(async move { timeout(PATIENCE, check.verdict(&owner)).await });
    match asked.await {
        Ok(Ok(verdict)) => verdict,
        _ => Verdict::Unknown,
    }
}
