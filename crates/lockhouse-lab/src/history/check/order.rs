//! P11: finds waiters that were overtaken by an ask that came long after them.
//!
//! Two asks that were under way together are compared. The first waits for one semaphore, and has the lower place: the time
//! at which it was sent, less ten seconds for each step of its priority. The second was granted at least as much of that
//! semaphore, so the first fitted. The first was overtaken if it was granted later, or if it was refused for lack of room
//! after the second was answered.
//!
//! P11 allows 500 ms and one commit. As the time of a commit the check takes the slowest call between the two asks, on that
//! semaphore, that is one commit.
//!
//! A process that does not claim the permits left to it in time may be passed over. During a fault, or while commits
//! are slow, that can be any process. So grants at such a time are not checked, and a waiter that waited through it counts as
//! if it had arrived at its end. The same goes for a deletion of the semaphore.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{Answer, Call, NEVER, Operation, Promise, Refused, Violation};

/// By how much a later ask may be served first, beside a commit.
const LATER_US: u64 = 500_000;

/// A process has 700 ms to claim permits that are left to it, and may pause for 500 ms of these before it polls. After a
/// slower commit it may be late.
const SLOW_COMMIT_US: u64 = 200_000;

/// The time that a step of priority is worth.
const STEP_US: i64 = 10_000_000;

/// The slowest commit is noted for each span of this length.
const SPAN_US: u64 = 100_000;

/// The waiters that were overtaken, and the number of pairs that were decided. A pair counts only if it would be a violation
/// in the other order. At `troubled` times a process may have been unable to claim the permits left to it: each such time
/// lasts until all processes work again.
pub fn overtaken(operations: &[Operation], troubled: &[(u64, u64)]) -> (Vec<Violation>, u64) {
    let of_semaphores = commits(operations);
    let (mut found, mut decided) = (Vec::new(), 0);
    for (name, asks) in by_semaphore(operations) {
        let commits = of_semaphores.get(name).map_or(&[][..], Vec::as_slice);
        let (slow, quick): (Vec<_>, Vec<_>) = commits.iter().copied().partition(is_slow);
        let judge = Judge {
            commits: Commits::of(&quick),
            troubled: merged([troubled, &slow, &deletions(operations, name)].concat()),
        };
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

/// The times of slow commits on any semaphore. A waiter makes no call that shows how long its own commit took, so [`overtaken`]
/// uses the other commits on its semaphore. In a history with few calls, those on all semaphores show more.
pub fn slow_commits(operations: &[Operation]) -> Vec<(u64, u64)> {
    let all = commits(operations).into_values().flatten();
    all.filter(is_slow).collect()
}

/// When `semaphore` may have been deleted. Its line is deleted with it: a waiter of another process that learns of neither the
/// deletion nor the new definition enters the line again.
fn deletions(operations: &[Operation], semaphore: &str) -> Vec<(u64, u64)> {
    let of_it = operations.iter().filter(|operation| {
        let is_done = matches!(operation.answer, Answer::Done | Answer::Unknown);
        is_done && matches!(&operation.call, Call::Delete { semaphore: of } if of == semaphore)
    });
    of_it
        .map(|deletion| (deletion.begun, deletion.ended))
        .collect()
}

fn violation(first: &Ask<'_>, second: &Ask<'_>) -> Violation {
    let by = second.grant.map_or(0, |grant| grant.fence);
    let what = match first.grant {
        Some(Grant { fence, .. }) => format!(
            "a waiter was granted a permit with fence {fence}, and an ask that came later was \
            granted fence {by}"
        ),
        None => format!("a waiter was refused, and an ask that came later was granted fence {by}"),
    };
    Violation::new(Promise::P11, what).by([first.operation, second.operation])
}

/// An ask and one of its semaphores.
#[derive(Clone, Copy, Debug)]
struct Ask<'a> {
    operation: &'a Operation,
    count: i64,
    /// The latest place that the ask can have.
    place: i64,
    /// The earliest place: an ask that is sent again with its id may still have its first place.
    earliest: i64,
    /// Whether the ask waits for this semaphore alone.
    waits_alone: bool,
    grant: Option<Grant>,
    was_refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    fence: i64,
    /// The earliest time of the grant.
    after: u64,
}

impl Ask<'_> {
    /// The earliest and the latest time of the grant. `None` also if the fences contradict the times.
    fn granted_within(&self) -> Option<(u64, u64)> {
        let (after, by) = (self.grant?.after, self.operation.ended);
        (after <= by).then_some((after, by))
    }
}

struct Judge {
    commits: Commits,
    troubled: Vec<(u64, u64)>,
}

impl Judge {
    /// Whether `second` overtook `first`. `None` if that is not certain either way.
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

    /// The end of the last trouble before `from`. `None` if there was trouble between `from` and `to`.
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

/// The spans in order. Spans that meet become one.
fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
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

/// The times of the calls that were one commit and were answered, by semaphore.
fn commits(operations: &[Operation]) -> HashMap<&str, Vec<(u64, u64)>> {
    let asked = operations.iter().filter_map(Operation::asked);
    let permits: HashMap<_, _> = asked
        .map(|asked| (asked.id.as_str(), asked.permits.as_slice()))
        .collect();
    let mut commits: HashMap<&str, Vec<_>> = HashMap::new();
    for operation in operations {
        if operation.ended == NEVER || operation.answer == Answer::Unknown {
            continue;
        }
        let Some(id) = of_one_commit(&operation.call) else {
            continue;
        };
        for (name, _) in permits.get(id).copied().unwrap_or_default() {
            let times = (operation.begun, operation.ended);
            commits.entry(name).or_default().push(times);
        }
    }
    commits
}

fn is_slow((begun, ended): &(u64, u64)) -> bool {
    ended - begun > SLOW_COMMIT_US
}

/// How long the slowest commit on a semaphore took in each span.
#[derive(Debug, Default)]
struct Commits {
    slowest: BTreeMap<u64, u64>,
}

impl Commits {
    fn of(commits: &[(u64, u64)]) -> Self {
        let mut slowest = BTreeMap::new();
        for (begun, ended) in commits {
            for span in begun / SPAN_US..=ended / SPAN_US {
                let known = slowest.entry(span).or_default();
                *known = (ended - begun).max(*known);
            }
        }
        Self { slowest }
    }

    /// The time that the slowest commit between two times took.
    fn slowest(&self, from: u64, to: u64) -> u64 {
        let spans = self.slowest.range(from / SPAN_US..=to / SPAN_US);
        spans.map(|(_, took)| *took).max().unwrap_or(0)
    }
}

/// The request that a call is about, if the call is one commit.
fn of_one_commit(call: &Call) -> Option<&str> {
    match call {
        Call::Acquire(asked) => (!asked.waits).then_some(&asked.id),
        Call::Renew { id, .. } | Call::Release { id } | Call::Force { id } => Some(id),
        _ => None,
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

/// Narrows down when each ask was granted. Fences rise with every grant (P7), so an ask is granted after all asks with lower
/// fences began. On a mutex it is granted after the previous holder may have ended.
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

/// The semaphores whose capacity was never above 1.
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

/// When each request was first asked to end.
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

    /// The earliest time at which the request that was granted may have ended.
    fn earliest(&self, grant: &Operation) -> u64 {
        let Some(asked) = grant.asked().filter(|asked| asked.owner.is_none()) else {
            return 0;
        };
        let ends = self.asked.get(asked.id.as_str()).copied();
        let expires = asked.ttl_us.map(|ttl| grant.begun.saturating_add(ttl));
        ends.into_iter().chain(expires).min().unwrap_or(NEVER)
    }
}
