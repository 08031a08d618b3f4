//! Renews a hold, and knows when it is lost.
//!
//! A task renews a request or an owner's session about every third of its TTL. It uses its
//! monotonic clock only to give up early: the hold counts as lost a tenth of the TTL before the
//! store could end it, counted from when the last successful call was sent (P8).
//!
//! Each look at the hold reads that clock itself and does not rely on the task. So a process that
//! was stopped finds the hold lost at its first look, whichever of its threads runs first. A hold
//! that was seen lost stays lost, even if a renewal succeeded after all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockhouse_core::{EndReason, ExternalId, Owner, Refusal, Ttl};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Error, Lockhouse};

/// Why a hold was lost; see [`Permit::lost`](crate::Permit::lost).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::{EndReason, Lost};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// # lockhouse.define("backup-slots", 10).await?;
/// # let request = lockhouse.request().permits("backup-slots", 1).ttl(std::time::Duration::from_millis(100));
/// # let permit = request.acquire().await?;
/// # lockhouse.force_release(permit.external_id(), None).await?;
/// match permit.lost().await {
///     Lost::Ended(EndReason::Forced) => println!("an operator ended the hold"),
///     Lost::NotRenewed => println!("the store could not be reached in time"),
///     lost => println!("{lost}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The request has ended, for this reason.
    Ended(EndReason),
    /// The store does not know the request.
    Unknown,
    /// It could not be renewed in time, so its permits may soon be granted to another caller.
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

/// The request or session that is renewed.
#[derive(Clone, Debug)]
pub(crate) enum Renewable {
    Request {
        external_id: ExternalId,
        /// In whose name it is renewed, if that matters.
        by: Option<Owner>,
    },
    Owner(Owner),
}

/// Renews one request or session until it is dropped or the hold is lost.
#[derive(Debug)]
pub(crate) struct Holding {
    status: HoldStatus,
    task: JoinHandle<()>,
}

/// The state of a hold, shared by all that look at it. The first to find the hold lost records it.
#[derive(Clone, Debug)]
struct HoldStatus(Arc<watch::Sender<Validity>>);

#[derive(Clone, Copy, Debug)]
struct Validity {
    /// When it counts as lost, unless it is renewed before.
    until: Instant,
    lost: Option<Lost>,
}

impl Holding {
    /// Renews `held`, which was asked for at `sent_at`.
    pub(crate) fn new(lockhouse: &Lockhouse, held: Renewable, ttl: Ttl, sent_at: Instant) -> Self {
        let ttl = ttl.as_duration();
        let status = HoldStatus::new(give_up_at(sent_at, ttl));
        let renewing = renew(lockhouse.clone(), held, ttl, sent_at, status.clone());
        Self {
            status,
            task: tokio::spawn(renewing),
        }
    }

    /// Why it is lost, if it is.
    pub(crate) fn is_lost(&self) -> Option<Lost> {
        self.status.lost()
    }

    /// Resolves when it is lost.
    pub(crate) async fn lost(&self) -> Lost {
        let mut changes = self.status.0.subscribe();
        loop {
            let Validity { until, lost } = *changes.borrow_and_update();
            if let Some(lost) = lost.or_else(|| self.status.lost()) {
                return lost;
            }
            // The sender is in `self`, so there is always a change to wait for.
            let _ = timeout_at(until, changes.changed()).await;
        }
    }

    pub(crate) fn held_until(&self) -> Instant {
        self.status.0.borrow().until
    }

    /// Stops renewing.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    /// Stops renewing, since the hold has ended.
    pub(crate) fn end(&self, reason: EndReason) {
        self.stop();
        self.status.lose(Lost::Ended(reason));
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.stop();
    }
}

impl HoldStatus {
    fn new(until: Instant) -> Self {
        Self(Arc::new(watch::Sender::new(Validity { until, lost: None })))
    }

    /// Why it is lost, by the current time.
    fn lost(&self) -> Option<Lost> {
        let Validity { until, lost } = *self.0.borrow();
        if lost.is_some() || Instant::now() < until {
            return lost;
        }
        self.change(|_| {}).lost
    }

    /// Records that it is lost for `why`, unless it was lost before.
    fn lose(&self, why: Lost) {
        self.change(|validity| validity.lost = validity.lost.or(Some(why)));
    }

    /// Records a renewal until `until`. If the hold is already lost, it stays lost, and the reason
    /// is returned.
    fn extend(&self, until: Instant) -> Option<Lost> {
        let extend = |validity: &mut Validity| {
            if validity.lost.is_none() {
                validity.until = until;
            }
        };
        self.change(extend).lost
    }

    /// Reads the clock, applies `change`, and returns the new validity.
    fn change(&self, change: impl FnOnce(&mut Validity)) -> Validity {
        let mut now = *self.0.borrow();
        self.0.send_modify(|validity| {
            if validity.lost.is_none() && Instant::now() >= validity.until {
                validity.lost = Some(Lost::NotRenewed);
            }
            change(validity);
            now = *validity;
        });
        now
    }
}

impl Renewable {
    /// Renews it for `ttl` from now. Returns why it is lost, if it is.
    async fn push(&self, lockhouse: &Lockhouse, ttl: Duration) -> Result<Option<Lost>, Error> {
        match self {
            Renewable::Request { external_id, by } => {
                let ttl = Some(Ttl::new(ttl)?);
                let backend = lockhouse.backend();
                match backend.renew(external_id.clone(), ttl, by.clone()).await {
                    Ok(_) => Ok(None),
                    Err(Error::Refused(Refusal::RequestEnded { reason, .. })) => {
                        Ok(Some(Lost::Ended(reason)))
                    }
                    Err(Error::Refused(Refusal::UnknownRequest(_))) => Ok(Some(Lost::Unknown)),
                    Err(error) => Err(error),
                }
            }
            // A heartbeat that began a new session would report the loss only once, and that answer
            // may be lost.
            Renewable::Owner(owner) => match lockhouse.renew_session(owner, ttl).await {
                Ok(_) => Ok(None),
                Err(Error::Refused(Refusal::SessionEnded(_))) => {
                    Ok(Some(Lost::Ended(EndReason::OwnerDead)))
                }
                Err(error) => Err(error),
            },
        }
    }
}

impl fmt::Display for Renewable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Renewable::Request { external_id, .. } => write!(f, "request \"{external_id}\""),
            Renewable::Owner(owner) => write!(f, "session of \"{owner}\""),
        }
    }
}

/// Renews until the hold is lost. A call on a dead connection may hang. So if a call has no answer soon, another call is
/// sent while the first is under way. The first good answer counts, and the TTL runs from when its call was sent.
async fn renew(
    lockhouse: Lockhouse,
    held: Renewable,
    ttl: Duration,
    sent_at: Instant,
    status: HoldStatus,
) {
    let (every, soon_again) = (ttl / 3, (ttl / 12).min(Duration::from_secs(1)));
    let mut until = give_up_at(sent_at, ttl);
    let mut next = sent_at + soon(every);
    let mut calls = FuturesUnordered::new();
    let call = |sent_at| {
        let (lockhouse, held) = (&lockhouse, &held);
        async move { (sent_at, held.push(lockhouse, ttl).await) }
    };
    let why = loop {
        let answer = tokio::select! {
            biased;
            Some(answer) = calls.next() => answer,
            () = sleep_until(next.min(until)) => {
                let now = Instant::now();
                if now >= until {
                    break Lost::NotRenewed;
                }
                calls.push(call(now));
                next = now + ttl / 4;
                continue;
            }
        };
        match answer {
            (sent_at, Ok(None)) => {
                until = give_up_at(sent_at, ttl);
                if let Some(lost) = status.extend(until) {
                    break lost;
                }
                next = sent_at + soon(every);
                calls.clear();
            }
            (_, Ok(Some(lost))) => break lost,
            (_, Err(error)) => {
                tracing::warn!(%held, %error, "a hold could not be renewed, trying again");
                next = next.min(Instant::now() + soon_again);
            }
        }
    };
    status.lose(why);
    tracing::error!(%held, %why, "a hold was lost");
}

/// Up to a fifth sooner, so that holders that began together do not renew in step.
fn soon(every: Duration) -> Duration {
    every.mul_f64(1.0 - 0.2 * fastrand::f64())
}

/// When a hold of `ttl` that was asked for at `sent_at` counts as lost.
fn give_up_at(sent_at: Instant, ttl: Duration) -> Instant {
    sent_at + ttl - ttl / 10
}
