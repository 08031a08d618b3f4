//! What was dropped, until it is given back.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::ExternalId;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Counts;
use crate::{Error, Lockhouse};

/// How long after a try that the store did not answer the next one comes.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How long a call may be on its way to a server that its caller has given up on.
const COMES_WITHIN: Duration = Duration::from_secs(10);

/// What is to be given back.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) external_id: ExternalId,
    /// From when on its time to live has ended it, if it has one.
    pub(crate) ends_at: Option<Instant>,
    /// Whether the ask for it may come to a server only after this.
    pub(crate) may_come_yet: bool,
}

/// One who owes it, until it is dropped; be it that its runtime ends.
pub(super) struct Debt {
    counts: Arc<watch::Sender<Counts>>,
    external_id: ExternalId,
    /// A later drop of the same id, after it was asked for again, is another debt.
    drop: u64,
    is_overdue: bool,
    is_paid: bool,
}

impl Debt {
    pub(super) fn of(counts: &Arc<watch::Sender<Counts>>, external_id: ExternalId) -> Self {
        let mut drop = 0;
        counts.send_modify(|counts| {
            counts.under_way += 1;
            counts.drops += 1;
            drop = counts.drops;
            counts.owed.insert(external_id.clone(), drop);
        });
        Self {
            counts: Arc::clone(counts),
            external_id,
            drop,
            is_overdue: false,
            is_paid: false,
        }
    }

    /// Until it is given back, or ends by itself, or is asked for again.
    pub(super) async fn pay(mut self, lockhouse: Lockhouse, dropped: Dropped) {
        let ends_at = dropped.ends_at;
        while !self.give_back(&lockhouse).await {
            self.is_overdue();
            sleep(AGAIN_AFTER).await;
            let has_ended = ends_at.is_some_and(|at| at <= Instant::now());
            if has_ended || !self.stands() {
                return;
            }
        }
        self.is_paid = true;
        let (id, may_come_yet) = (self.external_id.clone(), dropped.may_come_yet);
        drop(self);
        if may_come_yet {
            sleep(COMES_WITHIN).await;
            let _ = lockhouse.release(&id).await;
        }
    }

    /// Whether it is given back, or was nobody's.
    async fn give_back(&self, lockhouse: &Lockhouse) -> bool {
        let external_id = &self.external_id;
        match lockhouse.release(external_id).await {
            Ok(_) | Err(Error::Refused(_)) => true,
            Err(error) => {
                tracing::warn!(%external_id, %error, "a dropped permit could not be given back yet");
                false
            }
        }
    }

    fn stands(&self) -> bool {
        self.counts.borrow().owed.get(&self.external_id) == Some(&self.drop)
    }

    /// Nobody waits for it any more.
    fn is_overdue(&mut self) {
        if !self.is_overdue {
            self.is_overdue = true;
            self.counts.send_modify(|counts| {
                counts.under_way -= 1;
                counts.overdue += 1;
            });
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        let stands = self.stands();
        self.counts.send_modify(|counts| {
            match self.is_overdue {
                true => counts.overdue -= 1,
                false => counts.under_way -= 1,
            }
            if stands {
                counts.owed.remove(&self.external_id);
                counts.failed += usize::from(!self.is_paid);
            }
        });
    }
}
