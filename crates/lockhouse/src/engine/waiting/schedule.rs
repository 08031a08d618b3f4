//! When the poller reads each semaphore that has waiters, and when it looks for lapsed holds.
//!
//! The interval is a sixteenth of the time since the last change, between 20 and 100 ms, or 200 ms
//! with another process ahead. A process with two or more others ahead polls less often.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::time::Instant;

use super::super::grant_cache::GrantCache;

const FASTEST: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_millis(100);
const SLOWEST_BEHIND_ONE: Duration = Duration::from_millis(200);

/// The interval is this fraction of the time since the last change.
const FRACTION: u32 = 16;

/// How often the poller looks for lapsed holds. Together with the time until a waiter at another
/// server sees the result, it must be less than a second.
const LAPSED_EVERY: Duration = Duration::from_millis(400);

/// A process with two or more others ahead polls after a quarter of the time until its turn, but no later than after
/// `BEHIND` plus `BEHIND_EACH` for each of them. A line that stood still may begin to move a step every few milliseconds. With
/// this bound, each process notices that before its turn has come and gone: it would be passed over after 700 ms.
const BEHIND: Duration = Duration::from_millis(400);
const BEHIND_EACH: Duration = Duration::from_millis(12);

/// A process with more than `NEAR` others ahead needs no notification yet, and so no connection for it. It polls no later
/// than after `FAR_BEHIND_EACH` for each of them, and no later than after `SLOWEST_FAR_BEHIND` in all. So hundreds of
/// processes cost few queries.
const NEAR: usize = 16;
const FAR_BEHIND_EACH: Duration = Duration::from_millis(120);
const SLOWEST_FAR_BEHIND: Duration = Duration::from_secs(12);

/// When a semaphore is to be looked at.
#[derive(Debug)]
pub(in crate::engine) struct Schedule {
    changed: Instant,
    look: Instant,
    look_for_lapsed: Instant,
    /// The fence of the last known grant.
    fence: Option<u64>,
    /// About the time from one grant to the next.
    pace: Duration,
    /// How many processes are ahead of this one.
    rank: usize,
}

impl Schedule {
    pub(in crate::engine) fn new(now: Instant) -> Self {
        Self {
            changed: now,
            look: now + FASTEST,
            look_for_lapsed: now,
            fence: None,
            pace: Duration::ZERO,
            rank: 0,
        }
    }

    /// Records a grant that this process made.
    pub(in crate::engine) fn knows(&mut self, fence: u64) {
        self.fence = self.fence.max(Some(fence));
    }

    /// Records a reading. More room than estimated, or a grant of another process, is a change, and
    /// another may follow soon.
    pub(in crate::engine) fn see(&mut self, has_more: bool, fence: u64, now: Instant) {
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

    pub(in crate::engine) fn look_soon(&mut self, now: Instant) {
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
        let slowest = match self.rank {
            0 => SLOWEST,
            _ => SLOWEST_BEHIND_ONE,
        };
        let usual = (still / FRACTION).clamp(FASTEST, slowest);
        if !self.is_far_behind() {
            return usual;
        }
        let rank = u32::try_from(self.rank).unwrap_or(u32::MAX);
        let turns = self.pace.max(still).saturating_mul(rank - 1) / 4;
        let most = match self.rank > NEAR {
            true => FAR_BEHIND_EACH.saturating_mul(rank).min(SLOWEST_FAR_BEHIND),
            false => BEHIND + BEHIND_EACH * rank,
        };
        turns.clamp(usual.min(most), most)
    }

    /// Records the rank. A process that comes to the front polls as often as the others there.
    fn has_rank(&mut self, rank: usize, now: Instant) {
        let was_far_behind = self.is_far_behind();
        self.rank = rank;
        if was_far_behind && !self.is_far_behind() {
            self.look_within(FASTEST, now);
            self.look_for_lapsed_at(Some(now));
        }
        // The processes that looked may have left or died.
        self.look_for_lapsed_at(Some(now + self.looks_for_lapsed_every()));
    }

    /// Whether so many processes are ahead that this one's turn is not soon.
    fn is_far_behind(&self) -> bool {
        self.rank >= 2
    }

    /// The interval between looks for lapsed holds. Processes ahead look too, unless all of them
    /// have died.
    fn looks_for_lapsed_every(&self) -> Duration {
        let times = match self.rank > NEAR {
            true => self.rank.saturating_mul(self.rank) / NEAR,
            false => self.rank.max(1),
        };
        LAPSED_EVERY.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX))
    }
}

/// The semaphores to poll now, and when to poll next.
#[derive(Debug, Default)]
pub(in crate::engine) struct PollPlan {
    pub(in crate::engine) look: Vec<SemaphoreName>,
    pub(in crate::engine) look_for_lapsed: Vec<SemaphoreName>,
    pub(in crate::engine) next: Option<Instant>,
    /// The semaphores to listen on: those where this process's turn may come soon.
    pub(in crate::engine) on: BTreeSet<SemaphoreName>,
}

impl PollPlan {
    /// Once a semaphore is due, semaphores that are due within half of their interval are polled
    /// along with it, so that one query reads many. Nothing is due while the poller `rests`.
    pub(in crate::engine) fn of<'a>(
        schedule: impl Iterator<Item = (&'a SemaphoreName, &'a mut Schedule, usize)>,
        grants: &GrantCache,
        rests: Instant,
        now: Instant,
    ) -> Self {
        let ranked = schedule.map(|(name, schedule, rank)| {
            schedule.has_rank(rank, now);
            (name, schedule)
        });
        let mut all: Vec<_> = ranked.collect();
        let mut plan = Self::default();
        let is_due = |(_, schedule): &(_, &mut Schedule)| schedule.look <= now;
        if rests <= now && all.iter().any(is_due) {
            for (name, schedule) in &mut all {
                let interval = schedule.interval(now);
                if schedule.look <= now + interval / 2 {
                    schedule.look = now + jittered(interval);
                    plan.look.push(name.clone());
                }
            }
        }
        let next = all.iter().map(|(_, schedule)| schedule.look.max(rests));
        plan.next = next.min();
        plan.look_for_lapsed(&mut all, grants, now);
        let near = all.iter().filter(|(_, schedule)| schedule.rank <= NEAR);
        plan.on = near.map(|(name, _)| (*name).clone()).collect();
        plan
    }

    fn look_for_lapsed(
        &mut self,
        all: &mut [(&SemaphoreName, &mut Schedule)],
        grants: &GrantCache,
        now: Instant,
    ) {
        for (name, schedule) in &mut *all {
            let expiry = grants.expiry(name, now);
            let look = if expiry.is_past {
                Some(now)
            } else {
                expiry.next
            };
            schedule.look_for_lapsed_at(look);
        }
        if all
            .iter()
            .any(|(_, schedule)| schedule.look_for_lapsed <= now)
        {
            for (name, schedule) in &mut *all {
                if schedule.look_for_lapsed <= now + LAPSED_EVERY / 2 {
                    schedule.look_for_lapsed = now + schedule.looks_for_lapsed_every();
                    schedule.look_for_lapsed_at(grants.expiry(name, now).next);
                    self.look_for_lapsed.push((*name).clone());
                }
            }
        }
        // A process far behind looks for lapsed holds with a poll, and so on its connection.
        let near = all.iter().filter(|(_, schedule)| !schedule.is_far_behind());
        let next = near.map(|(_, schedule)| schedule.look_for_lapsed);
        self.next = self.next.into_iter().chain(next).min();
    }
}

/// Adds up to a tenth of jitter, so that processes do not poll in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}
