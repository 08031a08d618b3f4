//! Keeping a hold alive, and knowing when it is lost.
//!
//! A task renews the hold every third of its time to live. It trusts its own monotonic clock only
//! to give up early: the hold counts as lost a tenth of the time to live before the store could
//! end it, counted from when the last successful call was sent (P8).

use std::fmt;
use std::time::Duration;

use lockhouse_core::{EndReason, ExternalId, Refusal, Ttl};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Error, Lockhouse};

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The store says that it has ended.
    Ended(EndReason),
    /// The store knows nothing of it.
    Unknown,
    /// It could not be renewed in time, so somebody else may be granted it soon.
    NotRenewed,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Ended(reason) => write!(f, "it was ended: {reason}"),
            Lost::Unknown => f.write_str("the store does not know it"),
            Lost::NotRenewed => f.write_str("it could not be renewed in time"),
        }
    }
}

/// Renews one request until it is dropped or the hold is lost.
#[derive(Debug)]
pub(crate) struct Holding {
    standing: watch::Receiver<Standing>,
    task: Option<JoinHandle<()>>,
    /// Open as long as nothing can say that a hold without a time to live is lost.
    _never: Option<watch::Sender<Standing>>,
}

/// How a hold stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// When it counts as lost unless renewed before.
    until: Option<Instant>,
    lost: Option<Lost>,
}

impl Holding {
    /// Keeps alive what was asked for at `sent_at`. Without a `ttl` there is nothing to renew.
    pub(crate) fn new(
        lockhouse: &Lockhouse,
        external_id: &ExternalId,
        ttl: Option<Ttl>,
        sent_at: Instant,
    ) -> Self {
        let until = ttl.map(|ttl| give_up_at(sent_at, ttl.as_duration()));
        let (sender, standing) = watch::channel(Standing { until, lost: None });
        let Some(ttl) = ttl else {
            return Self {
                standing,
                task: None,
                _never: Some(sender),
            };
        };
        let renewing = renew(lockhouse.clone(), external_id.clone(), ttl, sent_at, sender);
        Self {
            standing,
            task: Some(tokio::spawn(renewing)),
            _never: None,
        }
    }

    pub(crate) async fn lost(&self) -> Lost {
        let mut standing = self.standing.clone();
        let known = standing
            .wait_for(|standing| standing.lost.is_some())
            .await
            .ok()
            .and_then(|standing| standing.lost);
        // The task ends without a word only when the permit was given up.
        known.unwrap_or(Lost::Unknown)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.standing.borrow().lost.is_some()
    }

    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.standing.borrow().until
    }
}

impl Holding {
    /// Renews it no more.
    pub(crate) fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn renew(
    lockhouse: Lockhouse,
    external_id: ExternalId,
    ttl: Ttl,
    sent_at: Instant,
    standing: watch::Sender<Standing>,
) {
    let ttl = ttl.as_duration();
    let (every, again) = (ttl / 3, (ttl / 12).min(Duration::from_secs(1)));
    let mut until = give_up_at(sent_at, ttl);
    let mut next = sent_at + every;
    let why = loop {
        sleep_until(next).await;
        let sent_at = Instant::now();
        match timeout_at(until, lockhouse.renew(&external_id, Some(ttl))).await {
            Ok(Ok(_)) => {
                until = give_up_at(sent_at, ttl);
                standing.send_modify(|standing| standing.until = Some(until));
                next = sent_at + every;
            }
            Ok(Err(Error::Refused(Refusal::RequestEnded { reason, .. }))) => {
                break Lost::Ended(reason);
            }
            Ok(Err(Error::Refused(Refusal::UnknownRequest(_)))) => break Lost::Unknown,
            Ok(Err(error)) => {
                tracing::warn!(%external_id, %error, "a hold could not be renewed, trying again");
                next = Instant::now() + again;
            }
            Err(_) => break Lost::NotRenewed,
        }
        if next >= until {
            sleep_until(until).await;
            break Lost::NotRenewed;
        }
    };
    tracing::error!(%external_id, %why, "a hold was lost");
    standing.send_modify(|standing| standing.lost = Some(why));
}

/// When a hold of `ttl` that was asked for at `sent_at` counts as lost.
fn give_up_at(sent_at: Instant, ttl: Duration) -> Instant {
    sent_at + ttl - ttl / 10
}
