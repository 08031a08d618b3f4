//! Estimates how far the store's clock is ahead of the monotonic clock, from the grants: each was made at some moment during
//! its call.

use super::facts::Facts;
use super::scene::Scene;
use super::slack::SLACK_US;
use crate::history::rows::PermitRow;
use crate::history::{Answer, Operation, Promise, Violation};

#[derive(Default)]
pub(super) struct Distance<'a> {
    least: Option<(i64, &'a Operation, &'a PermitRow)>,
    most: Option<(i64, &'a Operation, &'a PermitRow)>,
}

impl<'a> Distance<'a> {
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let mut distance = Self::default();
        for facts in scene.requests.values() {
            let Some(row) = facts.rows.first().copied() else {
                continue;
            };
            // A call during which the clock was moved can have taken effect before the move or after it.
            if facts.clock_moved {
                continue;
            }
            // A call that is repeated after a lost answer gets the result of the first call.
            let told = |o: &Operation| !facts.was_lost(o.begun);
            let new = facts.grants().find(|(_, _, now)| *now);
            if let Some((grant, ..)) = new.filter(|(grant, ..)| told(grant)) {
                distance.see(row.granted_at, grant, row);
            }
            let ended = |o: &&&Operation| matches!(o.answer, Answer::Ended { now: true, .. });
            let ended = facts.endings.iter().find(ended).filter(|ended| told(ended));
            if let (Some(ended), Some(at)) = (ended, row.released_at) {
                distance.see(at, ended, row);
            }
        }
        distance
    }

    fn see(&mut self, at: i64, operation: &'a Operation, row: &'a PermitRow) {
        let (least, most) = (at - signed(operation.ended), at - signed(operation.begun));
        if self.least.is_none_or(|(known, ..)| least > known) {
            self.least = Some((least, operation, row));
        }
        if self.most.is_none_or(|(known, ..)| most < known) {
            self.most = Some((most, operation, row));
        }
    }

    /// How far the store's clock is ahead at least.
    pub(super) fn least(&self) -> Option<i64> {
        self.least.map(|(least, ..)| least)
    }

    /// The latest moment, by the monotonic clock, at which the store's clock says `at`.
    pub(super) fn latest(&self, at: i64) -> Option<u64> {
        let (least, ..) = self.least?;
        Some(moment(at.saturating_sub(least)).saturating_add(SLACK_US))
    }

    /// The earliest moment, by the monotonic clock, at which the store's clock says `at`.
    pub(super) fn earliest(&self, at: i64) -> Option<u64> {
        let (most, ..) = self.most?;
        Some(moment(at.saturating_sub(most)).saturating_sub(SLACK_US))
    }

    /// P8: two operations, the first of which shows the store's clock to be ahead by more than the second one allows.
    pub(super) fn contradiction(&self) -> Option<Violation> {
        let ((least, one, one_row), (most, other, other_row)) = (self.least?, self.most?);
        let what = format!("the clock is ahead by {least} µs at least, and by {most} µs at most");
        (least > most + signed(SLACK_US)).then(|| {
            Violation::new(Promise::P8, what)
                .by([one, other])
                .at([one_row, other_row])
        })
    }
}

pub(super) fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

fn moment(us: i64) -> u64 {
    u64::try_from(us).unwrap_or_default()
}

impl Facts<'_> {
    /// The time by which the request was surely granted, by an answer or by its row.
    pub(super) fn granted_by(&self, distance: &Distance<'_>) -> Option<u64> {
        let told = self.first_grant().map(|grant| grant.ended);
        let row = self.rows.first().filter(|_| !self.clock_moved);
        let by_row = row.and_then(|row| distance.latest(row.granted_at));
        told.into_iter().chain(by_row).min()
    }
}
