//! P11: who was granted before somebody who came long before.
//!
//! It is decided of two asks at a time that were under way together. The first of the two waits for one semaphore, and has
//! the lower place: when it was sent, and ten seconds before for each step of its priority. The second was granted as much
//! of that semaphore, or more, so the first fitted. It was overtaken if it was granted later, or if it was
//! refused for lack of room after the second was answered.
//!
//! P11 allows 500 ms and one commit. How long a commit took then is what the slowest call took that is one: it has an
//! arrival and a commit, as each of the two has.
//!
//! While something is wrong, a process may be unable to claim what is left to it. Nothing is decided of a grant at such a
//! time, and a waiter of such a time counts as one that came when all were at work again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{Answer, Call, NEVER, Operation, Promise, Refused, Violation};

/// How much later one may come who is served before, beside a commit.
const LATER_US: u64 = 500_000;

/// No commit counts for more: a slower one is trouble.
const SLOWEST_COMMIT_US: u64 = 1_000_000;

/// The time that a step of priority is worth.
const STEP_US: i64 = 10_000_000;

/// The time in which the slowest commit is noted.
const SPAN_US: u64 = 100_000;

/// Waiters that were overtaken, and of how many pairs of asks it was decided: of those alone that had been a breach in the
/// other order. At `troubled` times some process could not come for what was left to it: from when that began, until all
/// were at work again.
pub fn overtaken(operations: &[Operation], troubled: &[(u64, u64)]) -> (Vec<Violation>, u64) {
    let judge = Judge {
        commits: Commits::of(operations),
        troubled: merged(troubled),
    };
    let (mut found, mut decided) = (Vec::new(), 0);
    for asks in by_semaphore(operations).into_values() {
        let mut is_known = vec![false; asks.len()];
        for (i, one) in asks.iter().enumerate() {
            let with = asks.iter().enumerate().skip(i + 1);
            let with = with.take_while(|(_, other)| other.operation.begun < one.operation.ended);
            for (k, other) in with {
                let ((first, number), second) = match one.place <= other.place {
                    true => ((one, i), other),
                    false => ((other, k), one),
                };
                let Some(is_overtaken) = judge.is_overtaken(first, second) else {
                    continue;
                };
                decided += 1;
                if is_overtaken && !std::mem::replace(&mut is_known[number], true) {
                    found.push(violation(first, second));
                }
            }
        }
    }
    (found, decided)
}

fn violation(first: &Ask<'_>, second: &Ask<'_>) -> Violation {
    let by = second.grant.map_or(0, |grant| grant.fence);
    let what = match first.grant {
        Some(Grant { fence, .. }) => format!(
            "a waiter was granted under fence {fence} what one who came later had under {by}"
        ),
        None => format!("a waiter was refused what one who came later had under fence {by}"),
    };
    Violation::new(Promise::P11, what).by([first.operation, second.operation])
}

/// An ask, on one of its semaphores.
#[derive(Clone, Copy, Debug)]
struct Ask<'a> {
    operation: &'a Operation,
    count: i64,
    /// The latest that it can have, and the earliest: an ask that is sent again under its id may have its first place still.
    place: i64,
    earliest: i64,
    /// Whether it waits, and for nothing else.
    waits_alone: bool,
    grant: Option<Grant>,
    was_refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    fence: i64,
    /// It was not granted before this.
    after: u64,
}

impl Ask<'_> {
    /// When it may have been granted.
    fn granted_within(&self) -> Option<(u64, u64)> {
        Some((self.grant?.after, self.operation.ended))
    }
}

struct Judge {
    commits: Commits,
    troubled: Vec<(u64, u64)>,
}

impl Judge {
    /// Whether `first` was overtaken by `second`; none if that cannot be said, or if it may have been.
    fn is_overtaken(&self, first: &Ask<'_>, second: &Ask<'_>) -> Option<bool> {
        let (_, second_by) = second.granted_within()?;
        if !first.waits_alone || first.count > second.count {
            return None;
        }
        let is_later = |grant: Grant| Some(grant.fence) > second.grant.map(|grant| grant.fence);
        let is_overtaken = first.grant.map_or(first.was_refused, is_later);
        let earlier = if is_overtaken { second } else { first };
        let (from, to) = earlier.granted_within()?;
        let (begun, ended) = (first.operation.begun, first.operation.ended);
        let came = begun.max(self.calm_since(from, to)?);
        let commit = self.commits.slowest(came, to);
        let allowed = LATER_US + commit;
        let place = first.place.saturating_add_unsigned(came - begun);
        let is_before = second.earliest.saturating_sub(place) > allowed.cast_signed();
        let has_stood = |at: u64| at.saturating_sub(came) > allowed;
        let is_decided = match is_overtaken {
            true => has_stood(from) && (first.grant.is_some() || second_by + commit < ended),
            false => has_stood(ended),
        };
        (is_before && is_decided).then_some(is_overtaken)
    }

    /// Since when all was well; none if something was wrong between two times.
    fn calm_since(&self, from: u64, to: u64) -> Option<u64> {
        let before = self.troubled.partition_point(|(_, mended)| *mended < from);
        let is_calm = self
            .troubled
            .get(before)
            .is_none_or(|(begun, _)| *begun > to);
        let last = before
            .checked_sub(1)
            .map_or(0, |last| self.troubled[last].1);
        is_calm.then_some(last)
    }
}

/// Spans of time in order, none of which meets another.
fn merged(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut().filter(|(_, last)| from <= *last) {
            Some((_, last)) => *last = to.max(*last),
            None => merged.push((from, to)),
        }
    }
    merged
}

/// How long commits took, by the calls that are one and were answered.
#[derive(Debug, Default)]
struct Commits {
    slowest: BTreeMap<u64, u64>,
}

impl Commits {
    fn of(operations: &[Operation]) -> Self {
        let mut commits = Self::default();
        let answered = operations
            .iter()
            .filter(|operation| operation.ended != NEVER && operation.answer != Answer::Unknown);
        for operation in answered.filter(|operation| is_one_commit(&operation.call)) {
            let took = operation.ended.saturating_sub(operation.begun);
            let took = took.min(SLOWEST_COMMIT_US);
            for span in operation.begun / SPAN_US..=operation.ended / SPAN_US {
                let slowest = commits.slowest.entry(span).or_default();
                *slowest = took.max(*slowest);
            }
        }
        commits
    }

    /// The slowest between two times.
    fn slowest(&self, from: u64, to: u64) -> u64 {
        let spans = self.slowest.range(from / SPAN_US..=to / SPAN_US);
        spans.map(|(_, took)| *took).max().unwrap_or(0)
    }
}

fn is_one_commit(call: &Call) -> bool {
    match call {
        Call::Acquire(asked) => !asked.waits,
        Call::Renew { .. } | Call::Release { .. } | Call::Force { .. } => true,
        _ => false,
    }
}

/// The asks for each semaphore, in the order in which they began.
fn by_semaphore(operations: &[Operation]) -> BTreeMap<&str, Vec<Ask<'_>>> {
    let mut semaphores: BTreeMap<&str, Vec<Ask<'_>>> = BTreeMap::new();
    let mut first_asked: HashMap<&str, u64> = HashMap::new();
    for (asked, begun) in operations
        .iter()
        .filter_map(|o| Some((o.asked()?, o.begun)))
    {
        let first = first_asked.entry(&asked.id).or_insert(begun);
        *first = begun.min(*first);
    }
    for operation in operations {
        let Some(asked) = operation.asked() else {
            continue;
        };
        let worth = i64::from(asked.priority) * STEP_US;
        let place = operation.begun.cast_signed() - worth;
        let earliest = first_asked[asked.id.as_str()].cast_signed() - worth;
        for (name, count) in &asked.permits {
            semaphores.entry(name).or_default().push(Ask {
                operation,
                count: *count,
                place,
                earliest,
                waits_alone: asked.waits && asked.permits.len() == 1,
                grant: grant(operation, name),
                was_refused: was_refused(operation, name),
            });
        }
    }
    let (ends, mutexes) = (Ends::of(operations), mutexes(operations));
    for (name, asks) in &mut semaphores {
        note_when_granted(asks, mutexes.contains(name).then_some(&ends));
        asks.sort_by_key(|ask| ask.operation.begun);
    }
    semaphores
}

fn grant(operation: &Operation, name: &str) -> Option<Grant> {
    let Answer::Granted { permits, now: true } = &operation.answer else {
        return None;
    };
    let held = permits.iter().find(|held| held.semaphore == name)?;
    Some(Grant {
        fence: held.fence?,
        after: operation.begun,
    })
}

fn was_refused(operation: &Operation, name: &str) -> bool {
    match &operation.answer {
        Answer::Refused(Refused::Exhausted(on)) => on.iter().any(|its| its == name),
        _ => false,
    }
}

/// Fences rise with every grant (P7): one is not granted before all with lower fences began. Nor is one on a mutex before
/// the one before it may have ended.
fn note_when_granted(asks: &mut [Ask<'_>], of_mutex: Option<&Ends<'_>>) {
    asks.sort_by_key(|ask| ask.grant.map(|grant| grant.fence));
    let (mut after, mut before) = (0, None);
    for ask in asks {
        let operation = ask.operation;
        let Some(grant) = &mut ask.grant else {
            continue;
        };
        after = grant.after.max(after);
        if let (Some(ends), Some((fence, last))) = (of_mutex, before)
            && grant.fence == fence + 1
        {
            after = after.max(ends.earliest(last).min(operation.ended));
        }
        before = Some((grant.fence, operation));
        grant.after = after;
    }
}

/// The semaphores that never had more than one permit.
fn mutexes(operations: &[Operation]) -> BTreeSet<&str> {
    let capacities = operations
        .iter()
        .filter_map(|operation| match &operation.call {
            Call::Define {
                semaphore,
                capacity,
            } => Some((semaphore.as_str(), *capacity)),
            _ => None,
        });
    let of = |is: fn(i64) -> bool| {
        capacities
            .clone()
            .filter(move |(_, capacity)| is(*capacity))
    };
    let larger: BTreeSet<_> = of(|capacity| capacity > 1).map(|(name, _)| name).collect();
    let ones = of(|capacity| capacity == 1).map(|(name, _)| name);
    ones.filter(|name| !larger.contains(name)).collect()
}

/// When somebody first asked for the end of each request.
struct Ends<'a> {
    asked: HashMap<&'a str, u64>,
}

impl<'a> Ends<'a> {
    fn of(operations: &'a [Operation]) -> Self {
        let mut asked: HashMap<&str, u64> = HashMap::new();
        for operation in operations {
            if let Call::Release { id } | Call::Force { id } = &operation.call {
                let earliest = asked.entry(id).or_insert(operation.begun);
                *earliest = operation.begun.min(*earliest);
            }
        }
        Self { asked }
    }

    /// The first moment at which what `grant` got may have ended.
    fn earliest(&self, grant: &Operation) -> u64 {
        let Some(asked) = grant.asked().filter(|asked| asked.owner.is_none()) else {
            return 0;
        };
        let ends = self.asked.get(asked.id.as_str()).copied();
        let expires = asked.ttl_us.map(|ttl| grant.begun.saturating_add(ttl));
        ends.into_iter().chain(expires).min().unwrap_or(NEVER)
    }
}
