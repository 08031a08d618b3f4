//! Keeping a hold alive, and knowing when it is lost.
//!
//! A task renews the hold about every third of its time to live: a request, or the session of an
//! owner with all that it keeps. It trusts its own monotonic clock only to give up early: the hold
//! counts as lost a tenth of the time to live before the store could end it, counted from when the
//! last successful call was sent (P8).

use std::fmt;
use std::time::Duration;

use lockhouse_core::{EndReason, ExternalId, Owner, Refusal, Ttl};
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

/// What is renewed.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Request(ExternalId),
    Owner(Owner),
}

/// Renews one request or session until it is dropped or the hold is lost.
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
        held: Held,
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
        let renewing = renew(lockhouse.clone(), held, ttl, sent_at, sender);
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

impl Held {
    /// Pushes its end to `ttl` from now; or says why it is lost.
    async fn push(&self, lockhouse: &Lockhouse, ttl: Duration) -> Result<Option<Lost>, Error> {
        match self {
            Held::Request(id) => match lockhouse.renew(id, Some(ttl)).await {
                Ok(_) => Ok(None),
                Err(Error::Refused(Refusal::RequestEnded { reason, .. })) => {
                    Ok(Some(Lost::Ended(reason)))
                }
                Err(Error::Refused(Refusal::UnknownRequest(_))) => Ok(Some(Lost::Unknown)),
                Err(error) => Err(error),
            },
            Held::Owner(owner) => {
                let heard = lockhouse.heartbeat(owner, ttl).await?;
                Ok(heard.began.then_some(Lost::Ended(EndReason::OwnerDead)))
            }
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Request(id) => write!(f, "request \"{id}\""),
            Held::Owner(owner) => write!(f, "session of \"{owner}\""),
        }
    }
}

async fn renew(
    lockhouse: Lockhouse,
    held: Held,
    ttl: Ttl,
    sent_at: Instant,
    standing: watch::Sender<Standing>,
) {
    let ttl = ttl.as_duration();
    let (every, again) = (ttl / 3, (ttl / 12).min(Duration::from_secs(1)));
    let mut until = give_up_at(sent_at, ttl);
    let mut next = sent_at + soon(every);
    let why = loop {
        sleep_until(next).await;
        let sent_at = Instant::now();
        match timeout_at(until, held.push(&lockhouse, ttl)).await {
            Ok(Ok(None)) => {
                until = give_up_at(sent_at, ttl);
                standing.send_modify(|standing| standing.until = Some(until));
                next = sent_at + soon(every);
            }
            Ok(Ok(Some(lost))) => break lost,
            Ok(Err(error)) => {
                tracing::warn!(%held, %error, "a hold could not be renewed, trying again");
                next = Instant::now() + again;
            }
            Err(_) => break Lost::NotRenewed,
        }
        if next >= until {
            sleep_until(until).await;
            break Lost::NotRenewed;
        }
    };
    tracing::error!(%held, %why, "a hold was lost");
    standing.send_modify(|standing| standing.lost = Some(why));
}

/// Up to a fifth sooner, so that those who began together don't go on in step.
fn soon(every: Duration) -> Duration {
    every.mul_f64(1.0 - 0.2 * fastrand::f64())
}

/// When a hold of `ttl` that was asked for at `sent_at` counts as lost.
fn give_up_at(sent_at: Instant, ttl: Duration) -> Instant {
    sent_at + ttl - ttl / 10
}
