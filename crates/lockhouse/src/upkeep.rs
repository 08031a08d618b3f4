//! Upkeep: ends requests that have lapsed, and deletes old rows.
//!
//! Any number of processes may [`maintain`](crate::Lockhouse::maintain) one store. The process that holds a reserved
//! permit does all the work until it stops. When that process dies, the permit expires, and another process takes it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lockhouse_core::store::{Page, Purge};
use lockhouse_core::{ExternalId, Owner};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::liveness::{OwnerCheck, OwnerPattern};
use crate::suspects::{Suspects, verdicts};
use crate::{Error, Lockhouse};

mod health;
mod leadership;

pub(crate) use health::Health;
pub use health::UpkeepState;
use leadership::Leadership;

/// The tasks of the upkeep and how often they run; see [`Lockhouse::maintain`].
///
/// ```
/// use std::time::Duration;
/// use lockhouse::Upkeep;
///
/// let upkeep = Upkeep {
///     sweep_every: Duration::from_secs(60),
///     ..Upkeep::default()
/// };
/// assert_eq!(upkeep.purge_after, Duration::from_secs(7 * 24 * 60 * 60));
/// ```
#[derive(Clone, Debug)]
pub struct Upkeep {
    /// How often requests that expired, or whose owner's session lapsed, are ended. They also end at once when a caller
    /// finds their semaphore full. By default 5 min.
    pub sweep_every: Duration,
    /// How often owners are [checked](Upkeep::checks). By default 5 min.
    pub check_every: Duration,
    /// The checks of owners. The first check whose pattern fits an owner is asked about it. By default none.
    pub checks: Vec<(OwnerPattern, Arc<dyn OwnerCheck>)>,
    /// The age at which a request without a TTL is ended as stale, unless its owner has a session. By default 24 h.
    pub stale_after: Duration,
    /// How often old ended requests are deleted. By default 4 h.
    pub purge_every: Duration,
    /// How long the lapsed session of an owner that holds nothing is kept before a sweep deletes it. Until then,
    /// requests that are granted to that owner end at the next sweep, unless a heartbeat comes first. By default 1 min.
    pub sessions_after: Duration,
    /// How long ended requests are kept. After that their ids are unknown. By default 7 days.
    pub purge_after: Duration,
    /// The most requests that one transaction deletes. The batch size adapts, from 50 on, so that a transaction takes a
    /// few milliseconds. By default 800.
    pub purge_batch: u32,
    /// The pause between two such transactions. By default 25 ms.
    pub purge_pause: Duration,
    /// How often old capacity changes are deleted. By default 24 h.
    pub history_every: Duration,
    /// How long capacity changes are kept. By default 30 days.
    pub history_after: Duration,
}

impl Default for Upkeep {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        const HOUR: Duration = Duration::from_secs(60 * 60);
        Self {
            sweep_every: 5 * MINUTE,
            check_every: 5 * MINUTE,
            checks: Vec::new(),
            stale_after: 24 * HOUR,
            sessions_after: MINUTE,
            purge_every: 4 * HOUR,
            purge_after: 7 * 24 * HOUR,
            purge_batch: 800,
            purge_pause: Duration::from_millis(25),
            history_every: 24 * HOUR,
            history_after: 30 * 24 * HOUR,
        }
    }
}

/// How much longer the rows of deleted semaphores are kept than their last requests, since a clock
/// may be set back.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The result of one round of upkeep; see [`Lockhouse::sweep`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::{Swept, Upkeep};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let Swept { lapsed, stale, purged, .. } = lockhouse.sweep(&Upkeep::default()).await?;
/// println!("ended {} requests, deleted {purged}", lapsed + stale);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Requests ended as `expired`, as `released` because their holder had finished them in a transaction, or as
    /// `owner_dead` because their owner's session had lapsed.
    pub lapsed: u64,
    /// Requests ended as `stale`.
    pub stale: u64,
    /// Semaphores of templates deleted, as nobody had used them for the idle time of the template.
    pub idle: u64,
    /// Ended requests deleted.
    pub purged: u64,
    /// Capacity changes deleted.
    pub history_purged: u64,
}

/// Upkeep in the background, until it is [stopped](Maintaining::stop) or dropped; see [`Lockhouse::maintain`].
///
/// Dropping it hands the work to other processes in the background, for which the runtime has to run a moment longer. A
/// program that is about to exit should stop it instead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::{Maintaining, Upkeep};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let maintaining: Maintaining = lockhouse.maintain(Upkeep::default())?;
/// // … until the process is asked to end
/// maintaining.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping this ends the upkeep"]
pub struct Maintaining {
    task: JoinHandle<()>,
    stop: watch::Sender<()>,
}

impl Maintaining {
    /// Stops the upkeep. Another process can take over as soon as this returns, and does when it next runs a task. A task that is
    /// under way is aborted; it can safely be started again. If this process is just taking the upkeep's permit, the store's
    /// answer is awaited first.
    pub async fn stop(self) {
        drop(self.stop);
        // A task that panicked has ended too.
        let _ = self.task.await;
    }
}

impl Upkeep {
    /// Runs the upkeep in the background.
    pub(crate) fn begin(self, lockhouse: Lockhouse) -> Maintaining {
        let (stop, stopped) = watch::channel(());
        Maintaining {
            task: tokio::spawn(async move {
                let Some(engine) = lockhouse.engine() else {
                    return;
                };
                let ttl = self.leadership_ttl();
                let leadership = Leadership::new(&lockhouse, engine, ttl, stopped);
                self.run(engine, &leadership).await;
                leadership.leave().await;
            }),
            stop,
        }
    }

    /// Runs each task in a separate loop, so that a slow task delays no other. It returns when the upkeep is stopped.
    async fn run(&self, engine: &Engine, leadership: &Leadership<'_>) {
        let said = |what, result| said(engine, what, result);
        let note = |what: &str, result| note(engine, what, result);
        let suspects: Vec<Mutex<Suspects>> = self.checks.iter().map(|_| Mutex::default()).collect();
        let sweep = every(self.sweep_every, leadership, |_| async {
            note("lapsed requests ended", engine.sweep_lapsed().await);
            note(
                "stale requests ended",
                engine.sweep_stale(self.stale_after).await,
            );
            let idle = engine.follow_all().await.map(|followed| followed.deleted);
            said("idle semaphores of templates deleted", idle);
            let sessions = self.purge_sessions(engine).await;
            said("sessions that lapsed deleted", sessions);
        });
        let checks = suspects.iter().enumerate().map(|(nth, suspects)| {
            every(self.check_every, leadership, move |term| async move {
                let mut suspects = suspects.lock().await;
                suspects.begin_round(&term);
                let ended = self.check(engine, nth, &mut suspects).await;
                note(&self.check_task(nth), ended);
            })
        });
        let purge = every(self.purge_every, leadership, |_| async {
            said("ended requests deleted", self.purge(engine).await);
        });
        let history = every(self.history_every, leadership, |_| async {
            let gone = self.purge_history(engine).await;
            said("capacity changes deleted", gone);
        });
        tokio::join!(sweep, join_all(checks), purge, history);
    }

    /// The TTL of the upkeep's permit: at most the shortest interval, so that a task is late by
    /// less than two intervals when the process dies.
    fn leadership_ttl(&self) -> Duration {
        let shortest = self
            .sweep_every
            .min(self.check_every)
            .min(self.purge_every)
            .min(self.history_every);
        shortest.clamp(leadership::LEAST_TTL, leadership::MOST_TTL)
    }

    /// Runs each task once, except the checks, which take two rounds.
    pub(crate) async fn once(&self, engine: &Engine) -> Result<Swept, Error> {
        let (lapsed, stale) = (
            engine.sweep_lapsed().await?,
            engine.sweep_stale(self.stale_after).await?,
        );
        self.purge_sessions(engine).await?;
        Ok(Swept {
            lapsed,
            stale,
            idle: engine.follow_all().await?.deleted,
            purged: self.purge(engine).await?,
            history_purged: self.purge_history(engine).await?,
        })
    }

    /// The name of the task that asks the `nth` check. Each check fails for itself.
    fn check_task(&self, nth: usize) -> String {
        format!(
            "requests of gone owners {:?} ended",
            self.checks[nth].0.as_str()
        )
    }

    /// Asks the `nth` check about its owners, and ends the requests of those that are gone.
    async fn check(
        &self,
        engine: &Engine,
        nth: usize,
        suspects: &mut Suspects,
    ) -> Result<u64, Error> {
        let mut total = 0;
        let mut after = None;
        loop {
            let owners = engine.owners(&Page { after, limit: 500 }).await?;
            let Some(last) = owners.last().cloned() else {
                return Ok(total);
            };
            after = Some(last);
            let theirs = owners.into_iter();
            let theirs = theirs.filter(|owner| self.check_of(owner) == Some(nth));
            let mut verdicts = pin!(verdicts(&self.checks[nth].1, theirs));
            while let Some((owner, verdict)) = verdicts.next().await {
                if suspects.is_confirmed(&owner, verdict) {
                    tracing::info!(%owner, "an owner is gone, twice in a row");
                    total += engine.sweep_gone(&owner).await?;
                }
            }
        }
    }

    /// The index of the first check whose pattern fits `owner`.
    fn check_of(&self, owner: &Owner) -> Option<usize> {
        self.checks
            .iter()
            .position(|(pattern, _)| pattern.fits(owner))
    }

    async fn purge(&self, engine: &Engine) -> Result<u64, Error> {
        let requests = Purge::Requests {
            age: self.purge_after,
        };
        let (batch, pause) = (self.purge_batch, self.purge_pause);
        let purged = engine.purge(requests, batch, pause).await?;
        let semaphores = Purge::Semaphores {
            age: self.purge_after.saturating_add(DAY),
        };
        engine.purge(semaphores, batch, pause).await?;
        Ok(purged)
    }

    /// Deletes lapsed sessions of owners that hold nothing, and the lists of waiters of processes that died, so that they do
    /// not accumulate. Returns how many sessions it deleted.
    async fn purge_sessions(&self, engine: &Engine) -> Result<u64, Error> {
        let sessions = Purge::Sessions {
            age: self.sessions_after,
        };
        let (batch, pause) = (self.purge_batch, self.purge_pause);
        engine.forget_shown(batch, pause).await?;
        engine.purge(sessions, batch, pause).await
    }

    async fn purge_history(&self, engine: &Engine) -> Result<u64, Error> {
        let changes = Purge::CapacityChanges {
            age: self.history_after,
        };
        engine
            .purge(changes, self.purge_batch, self.purge_pause)
            .await
    }
}

/// Runs `task` at each `interval` while this process leads, until the upkeep is stopped. Its argument is the request of
/// the permit.
async fn every<F: Future<Output = ()>>(
    interval: Duration,
    leadership: &Leadership<'_>,
    task: impl Fn(ExternalId) -> F,
) {
    while !leadership.is_stopped() {
        let term = leadership.term().await;
        let turn = async {
            if let Some(term) = term {
                task(term).await;
            }
            // A tenth of jitter, so that processes do not run in step.
            sleep(interval.mul_f64(0.9 + 0.1 * fastrand::f64())).await;
        };
        tokio::select! {
            () = turn => {}
            () = leadership.stopped() => {}
        }
    }
}

/// Logs how many rows a task changed, and records its [result](note).
fn said(engine: &Engine, what: &str, result: Result<u64, Error>) {
    match &result {
        Ok(0) => tracing::debug!("no {what}"),
        Ok(count) => tracing::info!(count, "{what}"),
        Err(_) => {}
    }
    note(engine, what, result);
}

/// Records the result of a task, and logs only its failure. The engine has logged how many requests it ended.
fn note(engine: &Engine, what: &str, result: Result<u64, Error>) {
    if let Err(error) = &result {
        tracing::warn!(%error, "upkeep failed, it is tried again at its next turn");
    }
    engine.upkeep().did(what, result.err());
}

#[cfg(test)]
mod tests {
    use crate::liveness::Verdict;

    use super::*;

    #[derive(Debug)]
    struct Never;

    #[async_trait::async_trait]
    impl OwnerCheck for Never {
        async fn verdict(&self, _: &Owner) -> Verdict {
            Verdict::Unknown
        }
    }

    /// A check that works does not clear the failure of another.
    #[test]
    fn each_check_is_a_task_with_its_own_failure() {
        let check = |pattern: &str| {
            let check: Arc<dyn OwnerCheck> = Arc::new(Never);
            (OwnerPattern::new(pattern), check)
        };
        let upkeep = Upkeep {
            checks: vec![check("job-*"), check("pid-*")],
            ..Upkeep::default()
        };
        let mut health = Health::default();
        health.takes_role(UpkeepState::Working);
        health.did(&upkeep.check_task(0), Some(Error::Overloaded));
        health.did(&upkeep.check_task(1), None);
        assert!(matches!(health.state(), UpkeepState::Failing(why) if why.contains("job-*")));
        health.did(&upkeep.check_task(0), None);
        assert_eq!(health.state(), UpkeepState::Working);
    }
}
