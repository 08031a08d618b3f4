//! Ending what is due: at once where it is in somebody's way, and by the sweep where it is not.
//!
//! What seems due is read without locks, and ended by commands that look again under them. So a
//! renewal and a sweep can't both win (P3), and any number of processes may sweep at once.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Due, Error as StoreError, Kind};
use lockhouse_core::{Cause, Command, EndReason, Owner, Reply, Request, Semaphore, SemaphoreName};
use tokio::time::{Instant, timeout, timeout_at};

use super::queue::Touches;
use super::{Engine, retry};
use crate::Error;

/// How many requests are ended before the next are read.
pub(super) const PIECE: u32 = 500;

/// How long the poller waits for what it ends.
const A_MOMENT: Duration = Duration::from_millis(300);

/// What became of requests that seemed due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// How many ended by this.
    pub(super) by_us: u64,
    /// How many live no more, whoever ended them.
    over: u64,
}

impl AddAssign for Ended {
    fn add_assign(&mut self, more: Self) {
        self.by_us += more.by_us;
        self.over += more.over;
    }
}

impl Engine {
    /// Ends what has lapsed on `names`, which were found full just now; whether anything may have, or all of
    /// them are as `is_free` would have them since others ended it. It has its answer by `deadline`.
    ///
    /// A look by another call counts if it began since. One that began before is waited for, and if it found
    /// nothing there is one more.
    pub(super) async fn end_lapsed(
        &self,
        names: &[SemaphoreName],
        is_free: impl Fn(&Semaphore) -> bool,
        deadline: Instant,
    ) -> Result<bool, Error> {
        let since = Instant::now();
        let (mut names, all) = (names.to_vec(), names.len());
        let mut free = HashSet::new();
        let mut is_over = false;
        while !names.is_empty() && !is_over && Instant::now() < deadline {
            let looks = self.shared.looks.join(&names);
            let mut see = |found: &Option<Vec<Semaphore>>| {
                is_over |= found.is_none();
                let semaphores = found.iter().flatten();
                let are_free = semaphores.filter(|semaphore| is_free(semaphore));
                free.extend(are_free.map(|semaphore| semaphore.name.clone()));
            };
            if !looks.own.is_empty() {
                let found = self.look_for_lapsed(&looks.own, deadline).await?;
                see(&found);
                looks.leader.finish(found);
            }
            names.clear();
            for (name, look) in looks.by_others {
                let told = timeout_at(deadline, look.result.wait()).await;
                let found = told.ok().and_then(Option::as_ref);
                found.into_iter().for_each(&mut see);
                if found.is_none() || look.begun < since {
                    names.push(name);
                }
            }
        }
        if is_over || names.is_empty() {
            return Ok(is_over || free.len() == all);
        }
        let late = "what has lapsed was not found in time";
        Err(StoreError::new(Kind::Unavailable, late).into())
    }

    /// None if something was ended that was in the way; else the semaphores as they are after the look, as others may have
    /// ended something just before.
    async fn look_for_lapsed(
        &self,
        names: &[SemaphoreName],
        deadline: Instant,
    ) -> Result<Option<Vec<Semaphore>>, Error> {
        let lapsed = Due::Lapsed { on: Some(names) };
        let ended = self.end_all(lapsed, lapse, || deadline).await?;
        if ended.over > 0 {
            self.shared.sweep_timer.go_on();
            return Ok(None);
        }
        let semaphores = retry::read(deadline, || self.store.named(names)).await?;
        Ok(Some(semaphores))
    }

    /// The same for the poller: it waits a moment only for what it ends, and goes on to the next, since a transaction that
    /// keeps some of it locked may last long.
    pub(super) async fn end_lapsed_soon(&self, names: &[SemaphoreName]) -> Result<(), Error> {
        let lapsed = Due::Lapsed { on: Some(names) };
        loop {
            let deadline = retry::deadline();
            let mut due = retry::read(deadline, || self.store.due(lapsed, PIECE)).await?;
            let found = due.len();
            let ending = self
                .shared
                .ending
                .begin(&mut due, |request| &request.external_id);
            if due.is_empty() {
                return Ok(());
            }
            let engine = self.clone();
            let ends = tokio::spawn(async move {
                let _until_it_ended = ending;
                if let Err(error) = engine.end_each(due, lapse, deadline).await {
                    tracing::warn!(%error, "what has lapsed could not be ended, trying again");
                }
            });
            let in_time = timeout(A_MOMENT, ends).await.is_ok();
            if !in_time || found < PIECE as usize {
                return Ok(());
            }
        }
    }

    /// Ends all that `owner` holds by `cause`, and its session; how many requests those were.
    pub(super) async fn end_owner(
        &self,
        owner: &Owner,
        cause: impl Fn() -> Cause,
    ) -> Result<u64, Error> {
        let (held, cause) = (Due::OwnedBy(owner), |_: &Request| cause());
        // First what it holds: should this process die before the end, the session's silence frees
        // the rest.
        let ended = self.end_all(held, &cause, retry::deadline).await?;
        let goodbye = Command::Goodbye {
            owner: owner.clone(),
        };
        self.submit(goodbye).await?;
        // What was granted since that look has no session left to free it.
        let late = self.end_all(held, &cause, retry::deadline).await?;
        Ok(ended.by_us + late.by_us)
    }

    /// Ends all that is due, piece by piece. Each of its calls has its answer by the `deadline` that it is
    /// given.
    pub(super) async fn end_all(
        &self,
        which: Due<'_>,
        cause: impl Fn(&Request) -> Cause,
        deadline: impl Fn() -> Instant,
    ) -> Result<Ended, Error> {
        let mut total = Ended::default();
        loop {
            let deadline = deadline();
            let due = retry::read(deadline, || self.store.due(which, PIECE)).await?;
            let found = due.len();
            let ended = self.end_each(due, &cause, deadline).await?;
            total += ended;
            // What is left of a piece was renewed.
            if ended.over == 0 || found < PIECE as usize {
                return Ok(total);
            }
        }
    }

    /// Ends those of `requests` that are due still.
    pub(super) async fn end_each(
        &self,
        requests: Vec<Request>,
        cause: impl Fn(&Request) -> Cause,
        deadline: Instant,
    ) -> Result<Ended, Error> {
        let ends = requests
            .into_iter()
            .map(|request| self.end(cause(&request), request, deadline));
        let mut ended = Ended::default();
        for one in join_all(ends).await {
            ended += one?;
        }
        if ended.by_us > 0 {
            tracing::info!(count = ended.by_us, "requests were ended");
        }
        Ok(ended)
    }

    async fn end(&self, cause: Cause, request: Request, deadline: Instant) -> Result<Ended, Error> {
        let permits = super::permits(&request);
        let touches = Touches {
            semaphores: permits.iter().map(|(name, _)| name.clone()).collect(),
            frees: permits,
        };
        let end = Command::End {
            external_id: request.external_id,
            cause,
        };
        let outcome = match self.driver.submit(end, touches, deadline).await {
            // Nobody waits for a row that another transaction keeps locked: the next look finds it again.
            Err(Error::Store(error)) if error.kind() == Kind::Locked => {
                return Ok(Ended::default());
            }
            outcome => outcome?,
        };
        match outcome {
            Ok(Reply::Ended { request, now, .. }) => {
                if now {
                    let external_id = &request.external_id;
                    let reason = request.end_reason().map(EndReason::as_str);
                    tracing::debug!(%external_id, reason, "a request was ended");
                }
                Ok(Ended {
                    by_us: now.into(),
                    // If it lives, it was renewed meanwhile.
                    over: (!request.is_live()).into(),
                })
            }
            // Purged meanwhile.
            Ok(_) | Err(_) => Ok(Ended { by_us: 0, over: 1 }),
        }
    }
}

/// The cause that finds out which it was: its own time or its owner's silence.
pub(super) fn lapse(request: &Request) -> Cause {
    match &request.owner {
        Some(owner) => Cause::OwnerSilent {
            owner: owner.clone(),
        },
        None => Cause::Expired,
    }
}
