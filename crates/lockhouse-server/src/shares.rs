//! Limits what each token may have of the server at once, so that a flood of calls by one token does not starve the others.
//!
//! - Waiting calls: a token at its limit gets no further one. A call for several semaphores counts once for every two, as each semaphore
//!   that somebody waits for takes memory.
//! - Calls under way: at most so many for all tokens together, and at most three quarters of that for one token. Further calls
//!   queue, first come, first served within each token. Whenever a call ends, a call of the token with the fewest under way is next. A call that waits
//!   for room is under way for its first 100 ms only, as it costs little from then on.
//! - Listings: at most 16 of each token, until their answers are read. The engine runs two at a time, and an answer may take 1 MiB.
//!
//! Callers without a token are not told apart, and not limited here.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse::Error;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// How many calls of a token may queue; each takes some memory.
const MOST_QUEUED: usize = 1024;

/// How many listings a token may have at once. The engine's queue takes four times as many.
const MOST_LISTINGS: usize = 16;

/// A waiting call counts once for each group of up to this many semaphores that it asks for.
const SEMAPHORES: usize = 2;

/// How long a call that waits for room counts as under way.
const BEGINS: Duration = Duration::from_millis(100);

/// The counts for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareCounts {
    pub(crate) queued: Gauge,
    pub(crate) waits_refused: Counter,
}

#[derive(Debug)]
pub(crate) struct Shares {
    /// How many waiting calls each token may have.
    waits: usize,
    /// How many calls of all tokens together may be under way.
    calls: usize,
    /// The calls of each token that has some.
    of: Mutex<HashMap<Name, Share>>,
    counts: ShareCounts,
}

type Name = Arc<str>;

/// The calls of one token.
#[derive(Debug, Default)]
struct Share {
    waits: usize,
    listings: usize,
    under_way: usize,
    queue: VecDeque<oneshot::Sender<InFlight>>,
}

/// A waiting call of a token, until it is dropped, and how often it counts.
#[derive(Debug)]
pub(crate) struct Wait(Option<(Arc<Shares>, Name, usize)>);

/// A listing of a token, until all of its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    _listed: Option<Arc<Listed>>,
}

#[derive(Debug)]
struct Listed(Arc<Shares>, Name);

/// A call under way, until it is dropped.
#[derive(Debug)]
struct InFlight {
    shares: Arc<Shares>,
    name: Name,
}

/// The admission of a call, which counts as under way until this is dropped, if calls of its token count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admitted(Option<Arc<Mutex<Option<InFlight>>>>);

impl Shares {
    pub(crate) fn new(waits: usize, calls: usize, counts: ShareCounts) -> Arc<Self> {
        Arc::new(Self {
            waits,
            calls,
            of: Mutex::default(),
            counts,
        })
    }

    /// A place among the waiting calls of the token called `name`, for a call that asks for this many `semaphores`. `None` if
    /// the token already has its full share.
    pub(crate) fn may_wait(
        self: &Arc<Self>,
        name: Option<&str>,
        semaphores: usize,
    ) -> Option<Wait> {
        let Some(name) = name else {
            return Some(Wait(None));
        };
        let mut of = self.of();
        let waits = of.get(name).map_or(0, |share| share.waits);
        if waits >= self.waits {
            self.counts.waits_refused.inc();
            return None;
        }
        let name = Name::from(name);
        let counts = semaphores.div_ceil(SEMAPHORES);
        of.entry(Arc::clone(&name)).or_default().waits += counts;
        Some(Wait(Some((Arc::clone(self), name, counts))))
    }

    /// A place among the listings of the token called `name`. `None` if it already has its full share.
    pub(crate) fn may_list(self: &Arc<Self>, name: Option<&str>) -> Option<Listing> {
        let Some(name) = name else {
            return Some(Listing { _listed: None });
        };
        let name = Name::from(name);
        let mut of = self.of();
        let share = of.entry(Arc::clone(&name)).or_default();
        if share.listings >= MOST_LISTINGS {
            return None;
        }
        share.listings += 1;
        let listed = Arc::new(Listed(Arc::clone(self), name));
        Some(Listing {
            _listed: Some(listed),
        })
    }

    /// Admits a call of the token called `name`. It may have to queue.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many of its calls queue.
    pub(crate) async fn admit(self: &Arc<Self>, name: Option<&str>) -> Result<Admitted, Error> {
        let Some(name) = name else {
            return Ok(Admitted(None));
        };
        let call = match self.admit_or_queue(name)? {
            Ok(call) => call,
            Err(queued) => {
                let _counted = Queued::count(&self.counts.queued);
                // The sender is in the queue until it has sent.
                queued.await.map_err(|_| Error::Overloaded)?
            }
        };
        Ok(Admitted(Some(Arc::new(Mutex::new(Some(call))))))
    }

    fn admit_or_queue(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Result<InFlight, oneshot::Receiver<InFlight>>, Error> {
        let mut of = self.of();
        let are_all_taken = self.are_all_taken(&of);
        let name = of
            .get_key_value(name)
            .map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let share = of.entry(Arc::clone(&name)).or_default();
        if !are_all_taken && share.queue.is_empty() && share.under_way < self.of_one() {
            share.under_way += 1;
            return Ok(Ok(InFlight {
                shares: Arc::clone(self),
                name,
            }));
        }
        // Callers that hung up queue no longer.
        share.queue.retain(|queued| !queued.is_closed());
        if share.queue.len() >= MOST_QUEUED {
            return Err(Error::Overloaded);
        }
        let (sender, queued) = oneshot::channel();
        share.queue.push_back(sender);
        Ok(Err(queued))
    }

    /// How many calls of one token may be under way.
    fn of_one(&self) -> usize {
        (self.calls - self.calls / 4).max(1)
    }

    fn are_all_taken(&self, of: &HashMap<Name, Share>) -> bool {
        of.values().map(|share| share.under_way).sum::<usize>() >= self.calls
    }

    /// A call of `name` has ended. Admits the next.
    fn ended(self: &Arc<Self>, name: &Name) {
        let mut of = self.of();
        if let Some(share) = of.get_mut(name) {
            share.under_way -= 1;
        }
        // The calls whose callers hung up in this moment. Dropping one takes the lock, and admits the next call.
        let mut not_taken = Vec::new();
        while !self.are_all_taken(&of) {
            let queues = of
                .iter_mut()
                .filter(|(_, share)| !share.queue.is_empty() && share.under_way < self.of_one());
            let Some((name, share)) = queues.min_by_key(|(_, share)| share.under_way) else {
                break;
            };
            let name = Arc::clone(name);
            let queued = share.queue.pop_front().filter(|next| !next.is_closed());
            let Some(queued) = queued else {
                forget_if_unused(&mut of, &name);
                continue;
            };
            share.under_way += 1;
            let shares = Arc::clone(self);
            let call = InFlight { shares, name };
            not_taken.extend(queued.send(call).err());
        }
        forget_if_unused(&mut of, name);
        drop(of);
    }

    fn of(&self) -> MutexGuard<'_, HashMap<Name, Share>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_if_unused(of: &mut HashMap<Name, Share>, name: &Name) {
    if let Some(share) = of.get(name)
        && share.waits == 0
        && share.listings == 0
        && share.under_way == 0
        && share.queue.is_empty()
    {
        of.remove(name);
    }
}

impl Admitted {
    /// Ends the admission of a call that goes on to wait, a little later.
    pub(crate) async fn end_soon(&self) -> Infallible {
        sleep(BEGINS).await;
        if let Self(Some(call)) = self {
            let call = call.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(call);
        }
        std::future::pending().await
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shares.ended(&self.name);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let Self(shares, name) = self;
        let mut of = shares.of();
        if let Some(share) = of.get_mut(name) {
            share.listings -= 1;
        }
        forget_if_unused(&mut of, name);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Self(Some((shares, name, counts))) = self else {
            return;
        };
        let mut of = shares.of();
        if let Some(share) = of.get_mut(name) {
            share.waits -= *counts;
        }
        forget_if_unused(&mut of, name);
    }
}

/// A call that queues.
struct Queued<'a>(&'a Gauge);

impl<'a> Queued<'a> {
    fn count(queued: &'a Gauge) -> Self {
        queued.inc();
        Self(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn shares(waits: usize, calls: usize) -> Arc<Shares> {
        Shares::new(waits, calls, ShareCounts::default())
    }

    /// Whether a call of `name` has to queue.
    async fn queues(shares: &Arc<Shares>, name: &str) -> bool {
        let admission = shares.admit(Some(name));
        timeout(Duration::from_millis(1), admission).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn one_token_takes_three_quarters_and_another_the_rest() {
        let shares = shares(1, 8);
        let mut admissions = Vec::new();
        for (name, many) in [("a", 6), ("b", 2)] {
            for _ in 0..many {
                admissions.push(shares.admit(Some(name)).await.unwrap());
            }
            assert!(queues(&shares, name).await);
        }
        assert!(queues(&shares, "c").await);
        assert!(shares.admit(None).await.is_ok());
        drop(admissions);
        assert!(shares.of().is_empty(), "{shares:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_token_with_the_fewest_calls_under_way_is_next() {
        let shares = shares(1, 4);
        let mut under_way = Vec::new();
        for name in ["a", "a", "a", "b"] {
            under_way.push(shares.admit(Some(name)).await.unwrap());
        }
        let queue = |name: &'static str| {
            let shares = Arc::clone(&shares);
            tokio::spawn(async move { shares.admit(Some(name)).await.unwrap() })
        };
        let of_a = queue("a");
        tokio::task::yield_now().await;
        let gone = queue("c");
        tokio::task::yield_now().await;
        gone.abort();
        let of_c = queue("c");
        tokio::task::yield_now().await;
        under_way.remove(0);
        let _c = of_c.await.unwrap();
        assert!(!of_a.is_finished());
        under_way.clear();
        of_a.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_makes_room_and_a_long_queue_is_refused() {
        let shares = shares(1, 1);
        let admission = shares.admit(Some("a")).await.unwrap();
        let mut queue = Vec::new();
        for _ in 0..MOST_QUEUED {
            queue.push(shares.admit_or_queue("a").unwrap().unwrap_err());
        }
        assert!(shares.admit_or_queue("a").is_err());
        assert!(timeout(BEGINS * 2, admission.end_soon()).await.is_err());
        assert!(queue.remove(0).await.is_ok());
    }

    #[test]
    fn a_token_has_so_many_waiting_calls_and_another_has_its_own() {
        let shares = shares(2, 1);
        let waits = [shares.may_wait(Some("a"), 1), shares.may_wait(Some("a"), 2)];
        assert!(waits.iter().all(Option::is_some));
        assert!(shares.may_wait(Some("a"), 1).is_none());
        assert!(shares.may_wait(Some("b"), 1).is_some() && shares.may_wait(None, 1).is_some());
        drop(waits);
        assert!(shares.may_wait(Some("a"), 1).is_some());
        assert!(shares.of().is_empty(), "{shares:?}");
    }

    #[test]
    fn a_token_has_so_many_listings_until_their_answers_are_read() {
        let shares = shares(1, 1);
        let mut listings: Vec<_> = (0..MOST_LISTINGS)
            .map(|_| shares.may_list(Some("a")).unwrap())
            .collect();
        let unread = listings[0].clone();
        assert!(shares.may_list(Some("a")).is_none());
        assert!(shares.may_list(Some("b")).is_some() && shares.may_list(None).is_some());
        listings.clear();
        assert!(shares.may_list(Some("a")).is_some());
        drop(unread);
        assert!(shares.of().is_empty(), "{shares:?}");
    }

    #[test]
    fn a_waiting_call_for_many_semaphores_counts_many_times() {
        let shares = shares(33, 1);
        let wide = shares.may_wait(Some("a"), 64);
        assert!(wide.is_some());
        let one = shares.may_wait(Some("a"), 1);
        assert!(one.is_some());
        assert!(shares.may_wait(Some("a"), 1).is_none(), "{shares:?}");
        drop(wide);
        // A call that alone counts more than the limit may wait if no other does.
        assert!(shares.may_wait(Some("a"), 64).is_some());
        drop(one);
        assert!(shares.of().is_empty(), "{shares:?}");
    }
}
