//! P1, from the answers to clients: the permits that are surely held at one time are never more than the capacity.

use std::collections::HashMap;

use super::facts::Facts;
use super::scene::Scene;
use super::slack::SLACK_US;
use super::templates::Templates;
use crate::history::{Answer, Call, NEVER, Operation, Promise, Violation};

/// A span of time in which an operation's permits are surely held.
pub(super) struct Span<'a> {
    grant: &'a Operation,
    pub(super) count: i64,
    pub(super) from: u64,
    pub(super) to: u64,
}

pub(super) fn more_than_there_are(scene: &Scene<'_>) -> Vec<Violation> {
    let capacities = greatest_capacities(scene);
    let templates = Templates::of(scene);
    let broken = spans(scene).into_iter().filter_map(|(semaphore, spans)| {
        let by_template = templates.greatest(semaphore);
        let capacity = by_template.max(capacities.get(semaphore).copied())?;
        over(semaphore, capacity, spans)
    });
    broken.collect()
}

/// The spans in which permits are surely held, by semaphore.
pub(super) fn spans<'a>(scene: &Scene<'a>) -> HashMap<&'a str, Vec<Span<'a>>> {
    let mut spans: HashMap<&str, Vec<Span<'_>>> = HashMap::new();
    for facts in scene.requests.values() {
        let Some(grant) = facts.first_grant() else {
            continue;
        };
        let Answer::Granted { permits, .. } = &grant.answer else {
            continue;
        };
        for (from, to) in surely_held(scene, facts, grant) {
            for permit in permits {
                let count = permit.count;
                let span = Span {
                    grant,
                    count,
                    from,
                    to,
                };
                spans.entry(&permit.semaphore).or_default().push(span);
            }
        }
    }
    spans
}

/// When the request is surely held: one span, or several if it was renewed late.
fn surely_held(scene: &Scene<'_>, facts: &Facts<'_>, grant: &Operation) -> Vec<(u64, u64)> {
    let others_may_end_it = facts
        .rows
        .iter()
        .any(|row| match row.end_reason.as_deref() {
            Some("forced") => true,
            Some("stale") => facts.clock_moved,
            _ => false,
        });
    let may_expire_at_any_time = facts.clock_moved && facts.ttls().is_some();
    if others_may_end_it || may_expire_at_any_time {
        return Vec::new();
    }
    let begun = facts.first_ask().map_or(grant.begun, |ask| ask.begun);
    let end = facts.may_end_from().min(facts.kept_to);
    let Some((least, _)) = facts.ttls() else {
        let stale_after = u64::try_from(scene.stale_after.as_micros()).unwrap_or(NEVER);
        let stale = begun.saturating_add(stale_after).saturating_sub(SLACK_US);
        return span(grant.ended, end.min(stale)).into_iter().collect();
    };
    let mut spans = Vec::new();
    let (mut from, mut to) = (grant.ended, begun + least);
    let renewed = facts
        .renewals
        .iter()
        .filter(|r| r.answer == Answer::Renewed);
    for renewal in renewed {
        if renewal.ended > to {
            spans.extend(span(from, to.saturating_sub(SLACK_US).min(end)));
            from = renewal.ended;
        }
        to = to.max(renewal.begun + least);
    }
    spans.extend(span(from, to.saturating_sub(SLACK_US).min(end)));
    spans
}

fn span(from: u64, to: u64) -> Option<(u64, u64)> {
    (from < to).then_some((from, to))
}

/// The first moment at which surely more permits are held than there are.
fn over(semaphore: &str, capacity: i64, mut spans: Vec<Span<'_>>) -> Option<Violation> {
    spans.sort_by_key(|span| span.from);
    let mut ends: Vec<usize> = (0..spans.len()).collect();
    ends.sort_by_key(|i| spans[*i].to);
    let (mut live, mut ended) = (0, ends.iter().peekable());
    for span in &spans {
        while let Some(gone) = ended.next_if(|i| spans[**i].to <= span.from) {
            live -= spans[*gone].count;
        }
        live += span.count;
        if live > capacity {
            let holders = spans
                .iter()
                .filter(|other| other.from <= span.from && span.from < other.to);
            let what = format!(
                "{semaphore}: {live} of {capacity} are held at {}",
                span.from
            );
            let holders = holders.map(|holder| holder.grant);
            return Some(Violation::new(Promise::P1, what).by(holders));
        }
    }
    None
}

/// The greatest capacity that each semaphore ever had. A resize below what is held revokes nothing, so later capacities
/// do not count.
pub(super) fn greatest_capacities<'a>(scene: &Scene<'a>) -> HashMap<&'a str, i64> {
    let mut greatest: HashMap<&str, i64> = HashMap::new();
    let mut see = |name: &'a str, capacity: i64| {
        let known = greatest.entry(name).or_insert(capacity);
        *known = (*known).max(capacity);
    };
    for operation in &scene.operations {
        if let Call::Define {
            semaphore,
            capacity,
        } = &operation.call
        {
            see(semaphore, *capacity);
        }
    }
    if let Some(rows) = scene.rows {
        for row in &rows.semaphores {
            see(&row.name, row.capacity);
        }
        for change in &rows.capacity_changes {
            see(
                &change.semaphore,
                change.old_capacity.max(change.new_capacity),
            );
        }
    }
    greatest
}
