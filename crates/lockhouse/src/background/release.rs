//! Dropped requests, until they are released.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lockhouse_core::{Cause, Command, ExternalId, Owner};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::counts::Counts;
use super::returning::UnderWay;
use crate::Error;
use crate::backend::Backend;

/// The pause before a release that the store did not answer is retried.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// When to release again an ask that a server may read late: most often it arrives soon, at the
/// latest after the longest call.
const ARRIVES_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(9)];

/// A request that is to be released.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) external_id: ExternalId,
    /// The owner that releases it.
    pub(crate) by: Option<Owner>,
    /// Whether the library generated the id, so that nobody else knows it. A request with the
    /// caller's own id may be asked for again by another process, so its release is tried only
    /// once.
    pub(crate) is_anonymous: bool,
    /// When to stop retrying, since the TTL is about to end it or has ended it. `None` if it has no TTL.
    pub(crate) ends_at: Option<Instant>,
    /// Tells later asks that the release is under way, until the first try is over.
    pub(crate) under_way: Option<UnderWay>,
    /// Whether a server may read the ask after the release, since the two are sent on different
    /// connections. Then it is released again later.
    pub(crate) may_come_yet: bool,
}

/// A release under way. It ends when this is dropped, also when its runtime ends.
pub(super) struct BackgroundRelease {
    counts: Arc<watch::Sender<Counts>>,
    is_overdue: bool,
    is_released: bool,
    /// Gets a message when the request is released.
    released: mpsc::Sender<()>,
}

impl BackgroundRelease {
    pub(super) fn begin(counts: &Arc<watch::Sender<Counts>>, released: mpsc::Sender<()>) -> Self {
        counts.send_modify(|counts| counts.under_way += 1);
        Self {
            counts: Arc::clone(counts),
            is_overdue: false,
            is_released: false,
            released,
        }
    }

    /// Releases the request, with retries until it is released or has ended by itself.
    pub(super) async fn run(mut self, backend: Backend, dropped: Dropped) {
        let Dropped {
            external_id,
            by,
            is_anonymous,
            ends_at,
            under_way,
            may_come_yet,
        } = dropped;
        let mut is_released = release(&backend, &external_id, &by).await;
        drop(under_way);
        while !is_released {
            if !is_anonymous {
                return;
            }
            self.record_overdue();
            sleep(AGAIN_AFTER).await;
            if ends_at.is_some_and(|at| at <= Instant::now()) {
                return;
            }
            is_released = release(&backend, &external_id, &by).await;
        }
        self.is_released = true;
        // Most callers do not wait for it.
        let _ = self.released.send(());
        drop(self);
        if !may_come_yet {
            return;
        }
        for arrives_after in ARRIVES_AFTER {
            sleep(arrives_after).await;
            release(&backend, &external_id, &by).await;
        }
    }

    /// Records that the first try failed. From then on [`settle`](super::Background::settle) does not wait for it.
    fn record_overdue(&mut self) {
        if !self.is_overdue {
            self.is_overdue = true;
            self.counts.send_modify(|counts| {
                counts.under_way -= 1;
                counts.overdue += 1;
            });
        }
    }
}

impl Drop for BackgroundRelease {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| {
            match self.is_overdue {
                true => counts.overdue -= 1,
                false => counts.under_way -= 1,
            }
            counts.failed += usize::from(!self.is_released);
        });
    }
}

/// Tries to release the request. Returns false if the store did not answer, and true if the request is
/// over, even if another caller ended it.
async fn release(backend: &Backend, external_id: &ExternalId, by: &Option<Owner>) -> bool {
    let release = Command::End {
        external_id: external_id.clone(),
        cause: Cause::Released { by: by.clone() },
    };
    match backend.execute(release).await {
        Ok(_) | Err(Error::Refused(_)) => true,
        Err(error) => {
            tracing::warn!(%external_id, %error, "a dropped permit could not be released");
            false
        }
    }
}
