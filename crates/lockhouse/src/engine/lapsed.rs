//! Ending what is due: at once where it is in somebody's way, and by the sweep where it is not.
//!
//! What seems due is read without locks, and ended by commands that look again under them. So a
//! renewal and a sweep can't both win (P3), and any number of processes may sweep at once.

use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Due, Error as StoreError, Kind};
use lockhouse_core::{
    Cause, Command, EndReason, ExternalId, Owner, Reply, Request, Semaphore, SemaphoreName,
};
use tokio::sync::SetOnce;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Engine, Touches, retry};
use crate::Error;

/// How many requests are ended before the next are read.
pub(super) const PIECE: u32 = 500;

/// How long one who looks again and again waits for what it ends.
const A_MOMENT: Duration = Duration::from_millis(300);

/// What is being ended by such a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<Mutex<HashSet<ExternalId>>>);

impl Ending {
    /// Those of `due` that are not being ended yet. They are until what comes with them is dropped.
    fn begin(&self, mut due: Vec<Request>) -> (Vec<Request>, Underway) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        due.retain(|request| ending.insert(request.external_id.clone()));
        let ids = due.iter().map(|request| request.external_id.clone());
        let underway = Underway {
            ids: ids.collect(),
            ending: self.clone(),
        };
        (due, underway)
    }
}

/// What one look began to end.
struct Underway {
    ids: Vec<ExternalId>,
    ending: Ending,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let ending = &self.ending.0;
        let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &self.ids {
            ending.remove(id);
        }
    }
}

/// Looks at semaphores that are under way. Those who are refused at about the same time share one.
#[derive(Debug, Default)]
pub(super) struct Looked {
    looks: Mutex<HashMap<SemaphoreName, Look>>,
}

/// What lapsed before a look began, it has found. What did since, or was only saved since, as a commit
/// may take longer than a TTL, it may have missed.
#[derive(Clone, Debug)]
struct Look {
    begun: Instant,
    /// What it found, or none if it failed; not set while it is under way. Who waits for it is woken in
    /// order, so that a simulated run can be repeated.
    found: Arc<SetOnce<Option<Found>>>,
}

/// What a look found.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Whether something is over that was in the way.
    is_over: bool,
    /// The semaphores as they were after it, as others may have ended something just before.
    semaphores: Vec<Semaphore>,
}

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

/// Tells what a look found, or that it failed when this is dropped before.
struct Telling(Arc<SetOnce<Option<Found>>>);

impl Telling {
    fn tell(&self, found: Found) {
        // Only once.
        let _ = self.0.set(Some(found));
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        // Unless it was told.
        let _ = self.0.set(None);
    }
}

/// What there is to do about some semaphores.
struct ToLook {
    /// Those to look at. Others wait for this to be dropped, or told.
    names: Vec<SemaphoreName>,
    telling: Telling,
    /// What others look at.
    by_others: Vec<(SemaphoreName, Look)>,
}

impl Looked {
    /// What there is to do about `names`.
    fn begin(&self, names: &[SemaphoreName]) -> ToLook {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, look| !look.found.initialized());
        let found = Arc::new(SetOnce::new());
        let begun = Instant::now();
        let mut to_look = ToLook {
            names: Vec::new(),
            telling: Telling(Arc::clone(&found)),
            by_others: Vec::new(),
        };
        for name in names {
            match looks.get(name) {
                Some(look) => to_look.by_others.push((name.clone(), look.clone())),
                None => {
                    let found = Arc::clone(&found);
                    looks.insert(name.clone(), Look { begun, found });
                    to_look.names.push(name.clone());
                }
            }
        }
        to_look
    }
}

impl Engine {
    /// Ends what has lapsed on `names`, which were found full just now; whether anything may have, or all of
    /// them are as `is_free` would have them by now, since others ended it. It has its answer by `deadline`.
    ///
    /// A look of another's counts if it began since. One that began before is waited for, and if it found
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
            let looks = self.shared.looked.begin(&names);
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
                looks.telling.tell(found);
            }
            names.clear();
            for (name, look) in looks.by_others {
                let told = timeout_at(deadline, look.found.wait()).await;
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
            semaphores: retry::read(deadline, || self.store.named(names)).await?,
        })
    }

    /// The same for who looks again and again: it waits a moment only for what it ends, and goes on to
    /// the next, since whoever has some of it locked may be long about it.
    pub(super) async fn end_lapsed_soon(&self, names: &[SemaphoreName]) -> Result<(), Error> {
        let lapsed = Due::Lapsed { on: Some(names) };
        loop {
            let deadline = retry::deadline();
            let due = retry::read(deadline, || self.store.due(lapsed, PIECE)).await?;
            let found = due.len();
            let (due, ending) = self.shared.ending.begin(due);
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
