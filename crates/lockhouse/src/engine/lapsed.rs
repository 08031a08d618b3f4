//! Ends due requests: at once if a caller needs their permits, otherwise by the sweep.
//!
//! A read without locks finds requests that seem due. Each is ended by a command that checks again
//! under locks. So a renewal and a sweep cannot both win (P3), and any number of processes may
//! sweep at once.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Due, Error as StoreError, Kind};
use lockhouse_core::{
    Cause, Command, EndReason, Owner, Reply, Request, SemaphoreName, SemaphoreRow,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::queue::{Touches, permits};
use super::singleflight::Found;
use super::{Engine, retry};
use crate::Error;

/// How many requests are ended before the next are read.
pub(super) const PIECE: u32 = 500;

/// How long the poller waits for the requests that it ends.
const A_MOMENT: Duration = Duration::from_millis(300);

/// How many requests that seemed due have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndedCounts {
    /// How many this call ended.
    pub(super) by_us: u64,
    /// How many are no longer live, by whichever call.
    over: u64,
}

impl AddAssign for EndedCounts {
    fn add_assign(&mut self, more: Self) {
        self.by_us += more.by_us;
        self.over += more.over;
    }
}

impl Engine {
    /// Ends the lapsed requests on `names`, which were full a moment ago. Returns whether to try
    /// again: a request ended, or `is_free` is true for all of them since other processes ended
    /// requests. Answers by `deadline`.
    ///
    /// A look of another caller counts if it began after this call. If it began before, this call
    /// waits for it, and looks once more if it found nothing.
    pub(super) async fn end_lapsed(
        &self,
        names: &[SemaphoreName],
        is_free: impl Fn(&SemaphoreRow) -> bool,
        deadline: Instant,
    ) -> Result<bool, Error> {
        let since = Instant::now();
        let (mut names, all) = (names.to_vec(), names.len());
        let mut free = HashSet::new();
        let mut is_over = false;
        while !names.is_empty() && !is_over && Instant::now() < deadline {
            let looks = self.shared.looks.begin(&names);
            let mut see = |found: &Found| {
                is_over |= found.is_over;
                let are_free = found
                    .semaphores
                    .iter()
                    .filter(|semaphore| is_free(semaphore));
                free.extend(are_free.map(|semaphore| semaphore.name.clone()));
            };
            if !looks.names.is_empty() {
                let found = self.look_for_lapsed(&looks.names, deadline).await?;
                see(&found);
                looks.leader.tell(found);
            }
            names.clear();
            for (name, look) in looks.by_others {
                let found = timeout_at(deadline, look.found.wait()).await;
                let found = found.ok().and_then(Option::as_ref);
                found.into_iter().for_each(&mut see);
                if found.is_none() || look.begun < since {
                    names.push(name);
                }
            }
        }
        if is_over || names.is_empty() {
            return Ok(is_over || free.len() == all);
        }
        let late = "lapsed requests were not found in time; try again";
        Err(StoreError::new(Kind::Unavailable, late).into())
    }

    async fn look_for_lapsed(
        &self,
        names: &[SemaphoreName],
        deadline: Instant,
    ) -> Result<Found, Error> {
        let lapsed = Due::Lapsed { on: Some(names) };
        let ended = self.end_all(lapsed, lapse, || deadline).await?;
        if ended.over > 0 {
            self.shared.sweep_timer.go_on();
            return Ok(Found {
                is_over: true,
                semaphores: Vec::new(),
            });
        }
        Ok(Found {
            is_over: false,
            semaphores: self
                .retry
                .read(deadline, || self.store.named(names))
                .await?,
        })
    }

    /// [`end_lapsed`](Self::end_lapsed) for the poller, which looks again and again. It waits only
    /// briefly for the requests that it ends, since another transaction may keep one of them locked
    /// for long.
    pub(super) async fn end_lapsed_soon(&self, names: &[SemaphoreName]) -> Result<(), Error> {
        let lapsed = Due::Lapsed { on: Some(names) };
        loop {
            let deadline = retry::deadline();
            let due = self
                .retry
                .read(deadline, || self.store.due(lapsed, PIECE))
                .await?;
            let found = due.len();
            let (due, ending) = self.shared.ending.begin(due);
            if due.is_empty() {
                return Ok(());
            }
            let engine = self.clone();
            let ends = tokio::spawn(async move {
                let _until_it_ended = ending;
                if let Err(error) = engine.end_each(due, lapse, deadline).await {
                    tracing::warn!(%error, "lapsed requests could not be ended, trying again");
                }
            });
            let in_time = timeout(A_MOMENT, ends).await.is_ok();
            if !in_time || found < PIECE as usize {
                return Ok(());
            }
        }
    }

    /// Ends all requests that `owner` holds, by `cause`, and its session. Returns how many requests
    /// it ended.
    pub(super) async fn end_owner(
        &self,
        owner: &Owner,
        cause: impl Fn() -> Cause,
    ) -> Result<u64, Error> {
        let (held, cause) = (Due::OwnedBy(owner), |_: &Request| cause());
        // The requests first: if this process dies halfway, the rest end when the session lapses.
        let ended = self.end_all(held, &cause, retry::deadline).await?;
        let goodbye = Command::Goodbye {
            owner: owner.clone(),
        };
        self.execute(goodbye).await?;
        // No session frees the requests that were granted since the first read.
        let late = self.end_all(held, &cause, retry::deadline).await?;
        Ok(ended.by_us + late.by_us)
    }

    /// Ends all due requests, batch by batch. Each call to the store ends by its own `deadline`.
    pub(super) async fn end_all(
        &self,
        which: Due<'_>,
        cause: impl Fn(&Request) -> Cause,
        deadline: impl Fn() -> Instant,
    ) -> Result<EndedCounts, Error> {
        let mut total = EndedCounts::default();
        loop {
            let deadline = deadline();
            let due = self
                .retry
                .read(deadline, || self.store.due(which, PIECE))
                .await?;
            let found = due.len();
            let ended = self.end_each(due, &cause, deadline).await?;
            total += ended;
            // The rest of the batch was renewed.
            if ended.over == 0 || found < PIECE as usize {
                return Ok(total);
            }
        }
    }

    /// Ends those of `requests` that are still due.
    pub(super) async fn end_each(
        &self,
        requests: Vec<Request>,
        cause: impl Fn(&Request) -> Cause,
        deadline: Instant,
    ) -> Result<EndedCounts, Error> {
        let ends = requests
            .into_iter()
            .map(|request| self.end(cause(&request), request, deadline));
        let mut ended = EndedCounts::default();
        for one in join_all(ends).await {
            ended += one?;
        }
        if ended.by_us > 0 {
            tracing::info!(count = ended.by_us, "requests were ended");
        }
        Ok(ended)
    }

    async fn end(
        &self,
        cause: Cause,
        request: Request,
        deadline: Instant,
    ) -> Result<EndedCounts, Error> {
        let permits = permits(&request);
        let touches = Touches {
            semaphores: permits.iter().map(|(name, _)| name.clone()).collect(),
            frees: permits,
        };
        let end = Command::End {
            external_id: request.external_id,
            cause,
        };
        let outcome = match self.decide(end, touches, deadline).await {
            // Do not wait for a row that another transaction keeps locked: the next look finds the
            // request again.
            Err(Error::Store(error)) if error.kind() == Kind::Locked => {
                return Ok(EndedCounts::default());
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
                Ok(EndedCounts {
                    by_us: now.into(),
                    // If it lives, it was renewed meanwhile.
                    over: (!request.is_live()).into(),
                })
            }
            // Purged meanwhile.
            Ok(_) | Err(_) => Ok(EndedCounts { by_us: 0, over: 1 }),
        }
    }
}

/// The cause for a lapsed request. The decision finds out whether its TTL or its owner's session
/// ended it.
pub(super) fn lapse(request: &Request) -> Cause {
    match &request.owner {
        Some(owner) => Cause::OwnerSilent {
            owner: owner.clone(),
        },
        None => Cause::Expired,
    }
}
