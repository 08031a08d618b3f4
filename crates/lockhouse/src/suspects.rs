//! Owners who were said to be gone, once so far.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use lockhouse_core::Owner;
use tokio::time::timeout;

use crate::liveness::{OwnerCheck, Verdict};

/// After so long a check does not know.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who, of those whom one check is for, was said to be gone in the last round, and in this one.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    last_round: HashSet<Owner>,
    this_round: HashSet<Owner>,
}

impl Suspects {
    pub(crate) fn begin_round(&mut self) {
        self.this_round.clear();
    }

    /// Whoever was not said to be gone in this round is no suspect any more.
    pub(crate) fn end_round(&mut self) {
        self.last_round = std::mem::take(&mut self.this_round);
    }

    /// Asks `check` about `owners`; those who are gone in this round and were in the last.
    pub(crate) async fn confirmed(
        &mut self,
        check: &Arc<dyn OwnerCheck>,
        owners: impl Iterator<Item = Owner>,
    ) -> Vec<Owner> {
        let asked = owners.map(|owner| {
            let check = Arc::clone(check);
            async move { (verdict(check, owner.clone()).await, owner) }
        });
        let verdicts: Vec<_> = stream::iter(asked)
            .buffer_unordered(check.at_once().max(1))
            .collect()
            .await;
        let gone = verdicts
            .into_iter()
            .filter(|(verdict, _)| *verdict == Verdict::Gone);
        let mut confirmed = Vec::new();
        for (_, owner) in gone {
            if self.last_round.remove(&owner) {
                confirmed.push(owner);
            } else {
                self.this_round.insert(owner);
            }
        }
        confirmed
    }
}

/// In a task of its own: a check that panics does not know either.
async fn verdict(check: Arc<dyn OwnerCheck>, owner: Owner) -> Verdict {
    let asked = tokio::spawn(async move { timeout(PATIENCE, check.verdict(&owner)).await });
    match asked.await {
        Ok(Ok(verdict)) => verdict,
        _ => Verdict::Unknown,
    }
}
