//! P8: one clock, and it is the store's.

use super::{Facts, SLACK_US, Scene};
use crate::history::rows::PermitRow;
use crate::history::{Answer, Operation, Promise, Violation};

/// How far times of the rows may be off what they are computed from.
const ROUNDING_US: i64 = 1_000;

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let requests = || scene.requests.values();
    let mut found: Vec<_> = requests().filter_map(expired_too_soon).collect();
    found.extend(requests().filter_map(expires_at_another_time));
    let distance = Distance::of(scene);
    found.extend(distance.contradiction());
    found.extend(requests().filter_map(|facts| renewal_is_lost(&distance, facts)));
    found
}

/// Told that its time had passed when it can't have.
fn expired_too_soon(facts: &Facts<'_>) -> Option<Violation> {
    let told = facts
        .told_over()
        .filter(|o| o.says_ended() == Some("expired"))?;
    let to = facts.lives_at_least_to(told.begun)?;
    let what = format!(
        "{} expired {} µs too soon",
        facts.id,
        to.saturating_sub(told.ended)
    );
    (told.ended + SLACK_US < to)
        .then(|| Violation::new(Promise::P8, what).by(facts.first_ask().into_iter().chain([told])))
}

/// An unrenewed request expires its time to live after its grant, both by the store's clock.
fn expires_at_another_time(facts: &Facts<'_>) -> Option<Violation> {
    let ttl = i64::try_from(facts.asked()?.ttl_us?).ok()?;
    let alike = facts
        .asks
        .iter()
        .all(|ask| ask.asked().and_then(|a| a.ttl_us) == Some(ttl.unsigned_abs()));
    if !alike || !facts.renewals.is_empty() {
        return None;
    }
    let off = |row: &&&PermitRow| {
        row.expires_at
            .is_none_or(|at| (at - row.granted_at - ttl).abs() > ROUNDING_US)
    };
    let row = facts.rows.iter().find(off)?;
    let what = format!("{} does not expire {ttl} µs after its grant", facts.id);
    Some(
        Violation::new(Promise::P8, what)
            .by(facts.first_ask())
            .at([*row]),
    )
}

/// How far the store's clock is ahead of the monotonic one, as the grants tell: each was made at some
/// moment of its call.
#[derive(Default)]
struct Distance<'a> {
    least: Option<(i64, &'a Operation, &'a PermitRow)>,
    most: Option<(i64, &'a Operation, &'a PermitRow)>,
}

impl<'a> Distance<'a> {
    fn of(scene: &Scene<'a>) -> Self {
        let mut distance = Self::default();
        for facts in scene.requests.values() {
            let Some(row) = facts.rows.first().copied() else {
                continue;
            };
            // Calls that the move came into can have been before it or after.
            if facts.clock_moved {
                continue;
            }
            // Who asks again after a lost answer is told of what the first call did as of its own.
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

    /// Two operations of which one says that the clock is ahead by more than the other allows.
    fn contradiction(&self) -> Option<Violation> {
        let ((least, one, one_row), (most, other, other_row)) = (self.least?, self.most?);
        let what = format!("the clock is ahead by {least} µs at least, and by {most} µs at most");
        (least > most + signed(SLACK_US)).then(|| {
            Violation::new(Promise::P8, what)
                .by([one, other])
                .at([one_row, other_row])
        })
    }
}

/// P9: what was told to be renewed lasts as long as was told.
fn renewal_is_lost(distance: &Distance<'_>, facts: &Facts<'_>) -> Option<Violation> {
    let (least, ..) = distance.least?;
    if facts.clock_moved {
        return None;
    }
    let last = facts.renewals.last()?;
    let (ttl, _) = facts.ttls()?;
    let row = facts.rows.first()?;
    let until = signed(last.begun) + least + signed(ttl) - signed(SLACK_US);
    let short = last.answer == Answer::Renewed && row.expires_at.is_none_or(|at| at < until);
    let what = format!("{} was renewed, and the row does not know", facts.id);
    short.then(|| Violation::new(Promise::P9, what).by([*last]).at([*row]))
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}
