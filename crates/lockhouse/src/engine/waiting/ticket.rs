//! Tickets: when an ask came, how long it waits, and the places that are kept for waiters that left.

use std::time::Duration;

use lockhouse_core::{Ask, ExternalId, PlaceInLine};
use lru::LruCache;
use tokio::time::Instant;

use crate::engine::retry::PATIENCE;

/// How long the place of a waiter that left is kept.
const KEPT: Duration = Duration::from_secs(5);

/// How much memory the kept places may take, for each waiter that the line allows.
const BYTES_EACH: usize = 1024;

/// About how many bytes a waiter takes beside its texts, and each permit that it asks for.
const WAITER_BYTES: usize = 512;
const PERMIT_BYTES: usize = 128;

/// An ask's place in the line, and its wait.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Ticket {
    pub(in crate::engine) place: PlaceInLine,
    pub(in crate::engine) wait: Wait,
    /// Whether it waited before and has come back.
    pub(in crate::engine) is_back: bool,
    came: Came,
    number: u64,
}

impl Ticket {
    /// How long ago the ask arrived, here or at another process.
    pub(in crate::engine) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.came.here) + self.came.elsewhere
    }

    /// Gives it the place of an ask that has waited for `waited`, here and at other processes.
    pub(super) fn resume(&mut self, waited: Duration, now: Instant) {
        let longer = waited.saturating_sub(self.waited(now));
        self.came.elsewhere += longer;
        self.place = self.place.earlier_by(longer);
    }
}

/// When an ask arrived here, and how long it had waited at other processes before.
#[derive(Clone, Copy, Debug)]
struct Came {
    here: Instant,
    elsewhere: Duration,
}

/// Whether and until when an ask waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Wait {
    No,
    Until(Instant),
    Forever,
}

impl Wait {
    /// A wait from `now` on. One that is too long for the clock has no end.
    pub(in crate::engine) fn of(wait: Duration, now: Instant) -> Self {
        match now.checked_add(wait) {
            _ if wait.is_zero() => Wait::No,
            Some(until) => Wait::Until(until),
            None => Wait::Forever,
        }
    }

    /// When a call with this `deadline` must have its answer. A call that waits longer gets the
    /// time for one more batch, whose answer says what is in the way.
    pub(in crate::engine) fn answered_by(self, deadline: Instant) -> Instant {
        let latest = deadline + PATIENCE;
        match self {
            Wait::No => deadline,
            Wait::Until(until) => until.clamp(deadline, latest),
            Wait::Forever => latest,
        }
    }

    pub(in crate::engine) fn is_over(self, now: Instant) -> bool {
        match self {
            Wait::No => true,
            Wait::Until(until) => until <= now,
            Wait::Forever => false,
        }
    }
}

/// Gives out tickets.
///
/// The place of a waiter that left is kept under its id for a while, so that a caller whose
/// connection broke does not fall behind. A caller that waits in several calls begins the next
/// before the last one ends, and takes over its place, so that no waiter gets by in between.
#[derive(Debug)]
pub(in crate::engine) struct Tickets {
    began: Instant,
    number: u64,
    kept: LruCache<ExternalId, Kept>,
    /// About how much memory the kept places take.
    bytes: usize,
}

/// The place of a waiter that left.
#[derive(Debug)]
struct Kept {
    ask: Ask,
    came: Came,
    number: u64,
    until: Instant,
}

impl Tickets {
    pub(in crate::engine) fn new(began: Instant) -> Self {
        Self {
            began,
            number: 0,
            // Unbounded, so that it allocates nothing in advance. `keep` has a bound.
            kept: LruCache::unbounded(),
            bytes: 0,
        }
    }

    /// The ticket of `ask`, which arrives `now`; `same` is the ticket of a waiter with the same ask.
    pub(in crate::engine) fn give(
        &mut self,
        ask: &Ask,
        wait: Wait,
        same: Option<&Ticket>,
        now: Instant,
    ) -> Ticket {
        let kept = match wait {
            Wait::No => None,
            _ => self.pop(&ask.external_id),
        };
        let kept = kept.filter(|kept| now < kept.until && is_the_same(&kept.ask, ask));
        let same = same.filter(|_| wait != Wait::No);
        self.number += 1;
        let (came, number) = match (same, &kept) {
            // No two waiters have the same place.
            (Some(same), _) => (same.came, self.number),
            (None, Some(kept)) => (kept.came, kept.number),
            (None, None) => {
                let elsewhere = Duration::ZERO;
                (
                    Came {
                        here: now,
                        elsewhere,
                    },
                    self.number,
                )
            }
        };
        let place = PlaceInLine::new(came.here.duration_since(self.began), ask.priority, number);
        Ticket {
            place: place.earlier_by(came.elsewhere),
            wait,
            is_back: same.is_some() || kept.is_some(),
            came,
            number,
        }
    }

    /// Keeps the place of a waiter that leaves, within the memory for `most` waiters.
    pub(in crate::engine) fn keep(
        &mut self,
        ticket: &Ticket,
        ask: &Ask,
        most: usize,
        now: Instant,
    ) {
        let kept = Kept {
            ask: ask.clone(),
            came: ticket.came,
            number: ticket.number,
            until: now + KEPT,
        };
        self.pop(&ask.external_id);
        self.bytes += bytes(ask);
        self.kept.put(ask.external_id.clone(), kept);
        while let Some((_, oldest)) = self.kept.peek_lru()
            && (oldest.until <= now
                || self.kept.len() > most
                || self.bytes > most.saturating_mul(BYTES_EACH))
        {
            self.bytes -= bytes(&oldest.ask);
            self.kept.pop_lru();
        }
    }

    fn pop(&mut self, external_id: &ExternalId) -> Option<Kept> {
        let kept = self.kept.pop(external_id)?;
        self.bytes -= bytes(&kept.ask);
        Some(kept)
    }
}

/// About how much memory a waiter for `ask` takes.
pub(in crate::engine) fn bytes(ask: &Ask) -> usize {
    let permits = ask.permits();
    let permits = permits.map(|(name, _)| PERMIT_BYTES + name.as_str().len());
    let owner = ask.owner.as_ref().map_or(0, |owner| owner.as_str().len());
    WAITER_BYTES + ask.external_id.as_str().len() + owner + permits.sum::<usize>()
}

/// Whether both are the same ask (P5).
pub(in crate::engine) fn is_the_same(one: &Ask, other: &Ask) -> bool {
    one.owner == other.owner && one.permits().eq(other.permits())
}
