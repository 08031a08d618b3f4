//! P10: no caller is refused for lack of room while there must be room. P11: waiters that lack a keyed semaphore take no room.
//!
//! For each semaphore, the permits that are possibly held in a span of time are at most those of the holds that began before
//! its end, less those of the holds that were over before its beginning. If that leaves room for an ask that was refused,
//! permits have leaked.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::facts::Facts;
use super::keys::Keys;
use super::scene::Scene;
use super::slack::SLACK_US;
use super::templates::Templates;
use crate::history::{Answer, Call, NEVER, Operation, Promise, Refused, Violation};

/// How long after its TTL a request that nobody released may still take room.
const COMES_BACK_WITHIN_US: u64 = 1_000_000;

/// How long a waiter may still be in the line after it was answered: its process removes it with a later batch, or other
/// processes pass it over after 700 ms.
const LEAVES_WITHIN_US: u64 = 1_000_000;

#[derive(Default)]
struct Semaphore<'a> {
    /// `None` once the capacity was changed.
    capacity: Option<i64>,
    definitions: u32,
    begins: Sums,
    ends: Sums,
    /// Spans in which there is a waiter.
    waits: Vec<(u64, u64)>,
    /// Spans in which a waiter may reserve the permits that it waits for.
    reserves: Vec<(u64, u64)>,
    refused: Vec<Refusal<'a>>,
    /// The first ask whose answer was lost.
    lost: Option<&'a Operation>,
}

/// An ask that found no room.
struct Refusal<'a> {
    ask: &'a Operation,
    count: i64,
    /// The permits that its own request may hold meanwhile, which are no reason to refuse it.
    own: i64,
}

/// Counts at times, and their sums from the beginning.
#[derive(Default)]
struct Sums(Vec<(u64, i64)>);

impl Sums {
    fn add(&mut self, at: u64, count: i64) {
        self.0.push((at, count));
    }

    fn finish(&mut self) {
        self.0.sort_unstable();
        let mut sum = 0;
        for (_, count) in &mut self.0 {
            sum += *count;
            *count = sum;
        }
    }

    /// The sum of the changes before `at`.
    fn before(&self, at: u64) -> i64 {
        let until = self.0.partition_point(|(time, _)| *time < at);
        until.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let mut semaphores = semaphores(scene);
    let templates = Templates::of(scene);
    let keys = Keys::of(scene);
    semaphores.retain(|name, _| !templates.match_name(name));
    for facts in scene.requests.values() {
        let own = match surely_never_held(scene, facts) {
            true => Own::default(),
            false => possibly_held(&mut semaphores, facts),
        };
        for ask in &facts.asks {
            see(&mut semaphores, ask, &own, &keys);
        }
    }
    let found = semaphores.iter_mut();
    found
        .filter_map(|(name, semaphore)| semaphore.refuses(name, scene))
        .collect()
}

fn semaphores<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, Semaphore<'a>> {
    let mut semaphores: BTreeMap<&str, Semaphore<'_>> = BTreeMap::new();
    for operation in &scene.operations {
        let (name, capacity) = match &operation.call {
            Call::Define {
                semaphore,
                capacity,
            } => (semaphore, Some(*capacity)),
            Call::Delete { semaphore } => (semaphore, None),
            _ => continue,
        };
        let semaphore = semaphores.entry(name).or_default();
        semaphore.definitions += 1;
        semaphore.capacity = capacity.filter(|_| semaphore.definitions == 1);
    }
    semaphores
}

/// Takes note of an ask for a request that possibly holds `own`.
fn see<'a>(
    semaphores: &mut BTreeMap<&'a str, Semaphore<'a>>,
    ask: &'a Operation,
    own: &Own<'a>,
    keys: &Keys<'_>,
) {
    let Some(asked) = ask.asked() else { return };
    for (name, count) in &asked.permits {
        let Some(semaphore) = semaphores.get_mut(name.as_str()) else {
            continue;
        };
        if asked.waits {
            semaphore.waits.push((ask.begun, ask.ended));
            let reserves = keys.may_reserve(ask).into_iter();
            let reserves = reserves.map(|(from, to)| (from, to.saturating_add(LEAVES_WITHIN_US)));
            semaphore.reserves.extend(reserves);
        }
        match &ask.answer {
            Answer::Unknown => {
                let known = semaphore.lost.filter(|known| known.begun <= ask.begun);
                semaphore.lost = known.or(Some(ask));
            }
            Answer::Refused(Refused::Exhausted(on)) if on.contains(name) => {
                let meanwhile = own.from < ask.ended && ask.begun <= own.to;
                let own = own.most.get(name.as_str()).filter(|_| meanwhile);
                semaphore.refused.push(Refusal {
                    ask,
                    count: *count,
                    own: own.copied().unwrap_or(0),
                });
            }
            _ => {}
        }
    }
}

/// Whether an ask was lost before it took effect: a granted request has a row.
fn surely_never_held(scene: &Scene<'_>, facts: &Facts<'_>) -> bool {
    scene.rows.is_some() && facts.rows.is_empty() && facts.first_grant().is_none()
}

/// Spans of time in order, to be gone through once.
struct Spans {
    left: VecDeque<(u64, u64)>,
    last_end: u64,
}

impl Spans {
    fn of(spans: &[(u64, u64)]) -> Self {
        let mut spans = spans.to_vec();
        spans.sort_unstable();
        Self {
            left: spans.into(),
            last_end: 0,
        }
    }

    /// The last end of the spans that begin until a time. Each call passes a later time.
    fn last_end(&mut self, until: u64) -> u64 {
        while let Some((_, to)) = self.left.pop_front_if(|(from, _)| *from <= until) {
            self.last_end = self.last_end.max(to);
        }
        self.last_end
    }
}

/// The permits that a request possibly holds, and when.
#[derive(Default)]
struct Own<'a> {
    from: u64,
    to: u64,
    most: HashMap<&'a str, i64>,
}

fn possibly_held<'a>(
    semaphores: &mut BTreeMap<&'a str, Semaphore<'a>>,
    facts: &Facts<'a>,
) -> Own<'a> {
    let Some(first) = facts.first_ask() else {
        return Own::default();
    };
    let over = facts.told_over().map_or(NEVER, |over| over.ended);
    let lives_to = facts.lives_at_most_to(NEVER).unwrap_or(NEVER);
    let lives_to = lives_to.min(facts.silent_from);
    let expired = lives_to.saturating_add(COMES_BACK_WITHIN_US + SLACK_US);
    // Under one id there may be several asks, of which only one is granted.
    let mut most: HashMap<&str, i64> = HashMap::new();
    for asked in facts.asks.iter().filter_map(|ask| ask.asked()) {
        for (name, count) in &asked.permits {
            let known = most.entry(name).or_insert(*count);
            *known = (*known).max(*count);
        }
    }
    let (from, to) = (first.begun, over.min(expired));
    for (name, count) in &most {
        if let Some(semaphore) = semaphores.get_mut(name) {
            semaphore.begins.add(from, *count);
            semaphore.ends.add(to, *count);
        }
    }
    Own { from, to, most }
}

impl Semaphore<'_> {
    fn refuses(&mut self, name: &str, scene: &Scene<'_>) -> Option<Violation> {
        let capacity = self.capacity?;
        self.begins.finish();
        self.ends.finish();
        self.refused.sort_by_key(|refusal| refusal.ask.ended);
        let (mut waits, mut reserves) = (Spans::of(&self.waits), Spans::of(&self.reserves));
        for Refusal { ask, count, own } in &self.refused {
            if ask.begun <= reserves.last_end(ask.ended) {
                continue;
            }
            let last_wait = waits.last_end(ask.ended);
            let is_waited_for = ask.begun <= last_wait;
            if last_wait > 0 && scene.is_troubled(ask) {
                continue;
            }
            let most = self.begins.before(ask.ended) - self.ends.before(ask.begun) - own;
            if most + count <= capacity {
                let lost = self.lost.filter(|lost| lost.begun < ask.begun);
                let promise = match (lost, own) {
                    _ if is_waited_for => Promise::P11,
                    (Some(_), _) => Promise::P9,
                    (None, 0) => Promise::P10,
                    (None, _) => Promise::P5,
                };
                let what =
                    format!("{name}: {most} of {capacity} can be held, and {count} are refused");
                return Some(Violation::new(promise, what).by(lost.into_iter().chain([*ask])));
            }
        }
        None
    }
}
