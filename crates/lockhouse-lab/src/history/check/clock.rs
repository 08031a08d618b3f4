//! P8: the store's clock is the only clock.

use std::collections::BTreeMap;

use super::distance::{Distance, signed};
use super::facts::Facts;
use super::scene::Scene;
use super::sessions;
use super::slack::SLACK_US;
use crate::history::rows::PermitRow;
use crate::history::{Answer, FELLOWS, NEVER, Operation, Promise, Violation};

/// How far times in the rows may be off the times from which they are computed.
const ROUNDING_US: i64 = 1_000;

/// A process that is not stopped gives a sign of life at least this often.
const SIGN_US: u64 = 400_000;

/// An answer counts as late only if its process was awake for this long between the expiry and the answer.
const AWAKE_US: u64 = 1_000_000;

pub(super) fn broken(scene: &Scene<'_>, distance: &Distance<'_>) -> Vec<Violation> {
    let requests = || scene.requests.values();
    let mut found: Vec<_> = requests().filter_map(expired_too_soon).collect();
    found.extend(requests().filter_map(expires_at_another_time));
    found.extend(distance.contradiction());
    found.extend(requests().filter_map(|facts| renewal_is_lost(distance, facts)));
    found.extend(requests().filter_map(|facts| silent_too_soon(scene, distance, facts)));
    found
}

/// A caller was told that a request had expired when it cannot have.
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

/// P9: a renewed request lasts as long as the answer says.
fn renewal_is_lost(distance: &Distance<'_>, facts: &Facts<'_>) -> Option<Violation> {
    let least = distance.least()?;
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

/// A request that ended because its owner was silent, or as stale, although a heartbeat of the owner still lasted.
fn silent_too_soon(
    scene: &Scene<'_>,
    distance: &Distance<'_>,
    facts: &Facts<'_>,
) -> Option<Violation> {
    let row = facts.rows.first()?;
    let at = row.released_at?;
    let (earliest, latest) = (distance.earliest(at)?, distance.latest(at)?);
    match row.end_reason.as_deref() {
        Some("owner_dead") => {}
        // After a goodbye there is no session.
        Some("stale") if facts.goodbyes.iter().all(|bye| bye.begun > latest) => {}
        _ => return None,
    }
    let (to, beat) = sessions::surely_goes_on_to(&facts.beats, earliest, latest)?;
    let moved = scene.moved.between(beat.begun, latest);
    let what = format!(
        "the owner of {} was taken to be silent, and was heard",
        facts.id
    );
    (latest < to && !moved).then(|| Violation::new(Promise::P8, what).by([beat]).at([*row]))
}

/// Grants that reached an awake client after they had expired. A stopped client may record an answer late that came
/// in time, so it is not judged.
pub(super) fn told_too_late(scene: &Scene<'_>, is_judged: impl Fn(u32) -> bool) -> Vec<Violation> {
    let distance = &Distance::of(scene);
    let late = scene.requests.values().filter_map(|facts| {
        let row = facts.rows.first().filter(|_| !facts.clock_moved)?;
        let expired = distance.latest(row.expires_at?)?;
        let late = |grant: &&Operation| {
            is_judged(grant.client)
                && grant.ended > expired + AWAKE_US
                && !scene.moved.between(grant.begun, grant.ended)
        };
        let mut grants = facts.grants().map(|(grant, ..)| grant);
        Some((grants.find(|grant| late(grant))?, expired, *row))
    });
    let late: Vec<_> = late.collect();
    if late.is_empty() {
        return Vec::new();
    }
    let signs = Signs::of(scene);
    let awake = late.into_iter().filter(|(grant, expired, _)| {
        signs.awake_for(grant.client, *expired, grant.ended) >= AWAKE_US
    });
    awake
        .map(|(grant, expired, row)| {
            let late = grant.ended - expired;
            let what = format!("a grant was told {late} µs after it had expired");
            Violation::new(Promise::P8, what).by([grant]).at([row])
        })
        .collect()
}

/// When each process began something, or was answered.
struct Signs(BTreeMap<u32, Vec<u64>>);

impl Signs {
    fn of(scene: &Scene<'_>) -> Self {
        let mut signs: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for operation in &scene.operations {
            let of_process = signs.entry(operation.client / FELLOWS).or_default();
            of_process.extend([operation.begun, operation.ended]);
        }
        for moments in signs.values_mut() {
            moments.retain(|moment| *moment != NEVER);
            moments.sort_unstable();
        }
        Self(signs)
    }

    /// For how much of the time the process of `client` surely ran.
    fn awake_for(&self, client: u32, from: u64, to: u64) -> u64 {
        let signs = self
            .0
            .get(&(client / FELLOWS))
            .map_or(&[][..], Vec::as_slice);
        let first = signs.partition_point(|moment| *moment < from);
        let after = signs.partition_point(|moment| *moment <= to);
        let pairs = signs[first..after.max(first)].windows(2);
        let gaps = pairs.map(|pair| pair[1] - pair[0]);
        gaps.filter(|gap| *gap <= SIGN_US).sum()
    }
}
