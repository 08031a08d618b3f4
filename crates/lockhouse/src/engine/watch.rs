//! Looking for what other processes do: one look for all who wait here, however many they are.
//!
//! Permits that come back through this process call those who wait for them. Those that come back
//! through another are found by reading the rows of just the semaphores that are waited for. It is
//! read often at first and after something came of it, and seldom while nothing changes: the wait
//! for a look is a sixteenth of the time since then, from 20 to 100 ms. A store that is told of
//! changes rings, which only makes the next look come at once: a ring that is lost costs a look's
//! time. After a look who looks rests, for 64 times as long as that took, 8 times if it rings, up to
//! half a second: the slower the store, the less it is asked, so that a hundred processes that wait
//! don't keep each other from being served.
//!
//! Holds that lapse are looked for as well, by the store's clock: when the next one that was granted
//! here must have lapsed, and every 400 ms for those that others granted; so that a dead
//! holder's permits are there within a second of its time (P10).

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::time::{Instant, sleep_until};

use super::known::Known;
use super::lanes::Lanes;
use super::line::Seen;
use super::{Engine, attempt};

const FASTEST: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_millis(100);

/// How many looks there are in the time since something changed.
const LOOKS: u32 = 16;

/// How often what has lapsed is looked for. With the time until that is seen by who waits at another
/// server it must come to less than a second.
const LAPSED_EVERY: Duration = Duration::from_millis(400);

/// A process with others before it looks less often: a quarter of the time until its turn, at most so long for each of
/// them, and in all. The first two look for what has lapsed.
const FAR_BEHIND: Duration = Duration::from_millis(40);
const SLOWEST_FAR_BEHIND: Duration = Duration::from_secs(2);
const LAPSED_EVERY_FAR_BEHIND: Duration = Duration::from_secs(5);

/// How many times as long as a look took nobody looks again, and how long at most.
const RESTS: u32 = 64;
const RESTS_WHERE_IT_RINGS: u32 = 8;
const LONGEST_REST: Duration = Duration::from_millis(500);

/// How many semaphores are read at once.
const PIECE: usize = 500;

/// When a semaphore is to be looked at.
#[derive(Debug)]
pub(super) struct Watched {
    changed: Instant,
    look: Instant,
    look_for_lapsed: Instant,
    /// The fence of the last grant that is known of.
    fence: Option<u64>,
    /// About how long it is from one grant to the next.
    pace: Duration,
    /// How many processes come before this one.
    rank: usize,
}

impl Watched {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            changed: now,
            look: now + FASTEST,
            look_for_lapsed: now,
            fence: None,
            pace: Duration::ZERO,
            rank: 0,
        }
    }

    /// A grant was made here.
    pub(super) fn knows(&mut self, fence: u64) {
        self.fence = self.fence.max(Some(fence));
    }

    /// It was looked at. More room than was believed, or a grant that was not made here, is a
    /// change, and soon there may be another.
    pub(super) fn see(&mut self, has_more: bool, fence: u64, now: Instant) {
        let grants = self.fence.map_or(0, |known| fence.saturating_sub(known));
        if has_more || grants > 0 {
            let since = now.saturating_duration_since(self.changed);
            if grants > 0 {
                self.pace = since / u32::try_from(grants).unwrap_or(u32::MAX);
            }
            self.changed = now;
            self.look_within(FASTEST, now);
        }
        self.knows(fence);
    }

    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_within(Duration::ZERO, now);
    }

    fn look_within(&mut self, time: Duration, now: Instant) {
        self.look = self.look.min(now + time);
    }

    fn look_for_lapsed_at(&mut self, at: Option<Instant>) {
        self.look_for_lapsed = at.into_iter().fold(self.look_for_lapsed, Instant::min);
    }

    fn interval(&self, now: Instant) -> Duration {
        let still = now.saturating_duration_since(self.changed);
        let usual = (still / LOOKS).clamp(FASTEST, SLOWEST);
        if !self.is_far_behind() {
            return usual;
        }
        let rank = u32::try_from(self.rank).unwrap_or(u32::MAX);
        let turns = self.pace.max(still).saturating_mul(rank - 1) / 4;
        let most = FAR_BEHIND.saturating_mul(rank).min(SLOWEST_FAR_BEHIND);
        turns.clamp(usual.min(most), most)
    }

    /// A process that comes to the front looks as those there do.
    fn has_rank(&mut self, rank: usize, now: Instant) {
        let was_far_behind = self.is_far_behind();
        self.rank = rank;
        if was_far_behind && !self.is_far_behind() {
            self.look_within(FASTEST, now);
            self.look_for_lapsed_at(Some(now));
        }
    }

    /// Whether so many processes come before this one that it is not its turn soon.
    fn is_far_behind(&self) -> bool {
        self.rank >= 2
    }

    fn looks_for_lapsed_every(&self) -> Duration {
        match self.is_far_behind() {
            true => LAPSED_EVERY_FAR_BEHIND,
            false => LAPSED_EVERY,
        }
    }
}

/// What to look at now, and when next.
#[derive(Debug, Default)]
pub(super) struct Plan {
    look: Vec<SemaphoreName>,
    look_for_lapsed: Vec<SemaphoreName>,
    next: Option<Instant>,
    /// All that is waited for.
    on: BTreeSet<SemaphoreName>,
}

impl Plan {
    /// Once something is due, what will be before half of its interval is over goes along: so that
    /// many semaphores come to be read at once. Nothing is as long as who looks `rests`.
    pub(super) fn of<'a>(
        watched: impl Iterator<Item = (&'a SemaphoreName, &'a mut Watched, usize)>,
        known: &Known,
        rests: Instant,
        now: Instant,
    ) -> Self {
        let ranked = watched.map(|(name, watched, rank)| {
            watched.has_rank(rank, now);
            (name, watched)
        });
        let mut all: Vec<_> = ranked.collect();
        let mut plan = Self::default();
        let is_due = |(_, watched): &(_, &mut Watched)| watched.look <= now;
        if rests <= now && all.iter().any(is_due) {
            for (name, watched) in &mut all {
                let interval = watched.interval(now);
                if watched.look <= now + interval / 2 {
                    watched.look = now + jittered(interval);
                    plan.look.push(name.clone());
                }
            }
        }
        let next = all.iter().map(|(_, watched)| watched.look.max(rests));
        plan.next = next.min();
        plan.look_for_lapsed(&mut all, known, now);
        plan.on = all.into_iter().map(|(name, _)| name.clone()).collect();
        plan
    }

    fn look_for_lapsed(
        &mut self,
        all: &mut [(&SemaphoreName, &mut Watched)],
        known: &Known,
        now: Instant,
    ) {
        for (name, watched) in &mut *all {
            let expiry = known.expiry(name, now);
            let look = if expiry.is_past {
                Some(now)
            } else {
                expiry.next
            };
            watched.look_for_lapsed_at(look);
        }
        if all
            .iter()
            .any(|(_, watched)| watched.look_for_lapsed <= now)
        {
            for (name, watched) in &mut *all {
                if watched.look_for_lapsed <= now + LAPSED_EVERY / 2 {
                    watched.look_for_lapsed = now + watched.looks_for_lapsed_every();
                    watched.look_for_lapsed_at(known.expiry(name, now).next);
                    self.look_for_lapsed.push((*name).clone());
                }
            }
        }
        let next = all.iter().map(|(_, watched)| watched.look_for_lapsed);
        self.next = self.next.into_iter().chain(next).min();
    }
}

/// A tenth more or less, so that processes don't look in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// The one who looks. However that ends, another may begin.
struct Watcher {
    lanes: Lanes,
    is_on: bool,
    looked: Instant,
    took: Duration,
    has_rung: bool,
}

impl Watcher {
    /// It looked, since it `began`.
    fn rest(&mut self, began: Instant) {
        self.looked = Instant::now();
        self.took = self.looked - began;
        self.has_rung = false;
    }

    /// Until when it rests.
    fn rests(&self) -> Instant {
        let times = if self.has_rung {
            RESTS_WHERE_IT_RINGS
        } else {
            RESTS
        };
        self.looked + (self.took * times).min(LONGEST_REST)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.is_on {
            self.lanes.state().is_watched = false;
        }
    }
}

impl Engine {
    /// Sees to it that somebody looks as long as anybody waits.
    pub(super) fn watch(&self) {
        let mut state = self.lanes.state();
        if state.is_watched {
            drop(state);
            self.shared.someone_new.notify_one();
            return;
        }
        state.is_watched = true;
        drop(state);
        let watcher = Watcher {
            lanes: self.lanes.clone(),
            is_on: true,
            looked: Instant::now(),
            took: Duration::ZERO,
            has_rung: false,
        };
        tokio::spawn(self.clone().look_on(watcher));
    }

    async fn look_on(self, mut watcher: Watcher) {
        while let Some(plan) = self.plan(&mut watcher) {
            let began = Instant::now();
            for names in plan.look.chunks(PIECE) {
                self.look_at(names).await;
                watcher.rest(began);
            }
            for names in plan.look_for_lapsed.chunks(PIECE) {
                if let Err(error) = self.end_lapsed_soon(names).await {
                    tracing::warn!(%error, "what has lapsed could not be ended, trying again");
                }
            }
            self.lanes.save_due();
            self.show_waiters();
            let process = self.lanes.state().waiting.process;
            let to_save = self.lanes.state().waiting.next_to_save(Instant::now());
            // What there is to save may be over by then, with all who waited.
            let to_show = self.lanes.state().board.next();
            let next = plan.next.into_iter().chain(to_save).chain(to_show).min();
            let next = next.unwrap_or_else(Instant::now);
            // In one order, so that a run can be repeated; whichever it is, all is looked at anew.
            tokio::select! {
                biased;
                changed = self.store.changed(&plan.on, process) => {
                    self.lanes.state().waiting.look_soon(&changed);
                    watcher.has_rung = true;
                }
                () = self.shared.someone_new.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        self.show_waiters();
    }

    /// None once nobody waits.
    fn plan(&self, watcher: &mut Watcher) -> Option<Plan> {
        let mut state = self.lanes.state();
        if state.waiting.is_empty() {
            state.is_watched = false;
            watcher.is_on = false;
            return None;
        }
        let plan = state
            .waiting
            .plan(&self.shared.known, watcher.rests(), Instant::now());
        Some(plan)
    }

    async fn look_at(&self, names: &[SemaphoreName]) {
        let seen = attempt::read(attempt::deadline(), || self.store.named(names)).await;
        let semaphores = match seen {
            Ok(semaphores) => semaphores,
            Err(error) => {
                tracing::warn!(%error, "what is waited for could not be read, trying again");
                return;
            }
        };
        let mut state = self.lanes.state();
        for semaphore in &semaphores {
            state.waiting.see(semaphore, None, Seen::AtSomeTime);
        }
        let is_there = |name: &&SemaphoreName| semaphores.iter().any(|s| s.name == **name);
        for name in names.iter().filter(|name| !is_there(name)) {
            state.waiting.delete(name);
        }
        drop(state);
        self.lanes.call();
    }
}
