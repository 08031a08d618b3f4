//! What was dropped, until it is given back.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lockhouse_core::{ExternalId, Owner};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{Counts, UnderWay};
use crate::{Error, Lockhouse};

/// How long after a try that the store did not answer the next one comes.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// When a server may have read an ask that was given up on: most often soon, at the latest after the longest call.
const ARRIVES_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(9)];

/// What is to be given back.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) external_id: ExternalId,
    /// Who gives it back.
    pub(crate) by: Option<Owner>,
    /// Whether the library made the id, so that nobody else knows it. One of the caller's own may be asked for
    /// again, here or elsewhere, by who is to have it then: it is tried but once.
    pub(crate) is_anonymous: bool,
    /// From when on its time to live has ended it, if it has one.
    pub(crate) ends_at: Option<Instant>,
    /// Says to later asks that it is under way, until the first try is over.
    pub(crate) under_way: Option<UnderWay>,
    /// Whether a server may read the ask for it only after the release: they are on different connections.
    pub(crate) may_come_yet: bool,
}

/// One who owes it, until it is dropped; be it that its runtime ends.
pub(super) struct Debt {
    counts: Arc<watch::Sender<Counts>>,
    is_overdue: bool,
    is_paid: bool,
    /// Told when it is paid.
    paid: mpsc::Sender<()>,
}

impl Debt {
    pub(super) fn of(counts: &Arc<watch::Sender<Counts>>, paid: mpsc::Sender<()>) -> Self {
        counts.send_modify(|counts| counts.under_way += 1);
        Self {
            counts: Arc::clone(counts),
            is_overdue: false,
            is_paid: false,
            paid,
        }
    }

    /// Until it is given back, or ends by itself.
    pub(super) async fn pay(mut self, lockhouse: Lockhouse, dropped: Dropped) {
        let Dropped {
            external_id,
            by,
            is_anonymous,
            ends_at,
            under_way,
            may_come_yet,
        } = dropped;
        let mut is_back = is_given_back(&lockhouse, &external_id, &by).await;
        drop(under_way);
        while !is_back {
            if !is_anonymous {
                return;
            }
            self.is_overdue();
            sleep(AGAIN_AFTER).await;
            if ends_at.is_some_and(|at| at <= Instant::now()) {
                return;
            }
            is_back = is_given_back(&lockhouse, &external_id, &by).await;
        }
        self.is_paid = true;
        // Most callers do not wait for it.
        let _ = self.paid.send(());
        drop(self);
        if !may_come_yet {
            return;
        }
        for arrives_after in ARRIVES_AFTER {
            sleep(arrives_after).await;
            is_given_back(&lockhouse, &external_id, &by).await;
        }
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
        self.counts.send_modify(|counts| {
            match self.is_overdue {
                true => counts.overdue -= 1,
                false => counts.under_way -= 1,
            }
            counts.failed += usize::from(!self.is_paid);
        });
    }
}

/// Whether it is, or was nobody's.
async fn is_given_back(
    lockhouse: &Lockhouse,
    external_id: &ExternalId,
    by: &Option<Owner>,
) -> bool {
    match lockhouse.release_as(external_id.clone(), by.clone()).await {
        Ok(_) | Err(Error::Refused(_)) => true,
        Err(error) => {
            tracing::warn!(%external_id, %error, "a dropped permit could not be given back");
            false
        }
    }
}
