//! Finds when a waiter surely lacks room on a keyed semaphore, and so reserves nothing on its other semaphores (P11).

use std::collections::HashMap;

use super::held::{self, Span};
use super::scene::Scene;
use super::templates::Templates;
use crate::history::Operation;

/// How long a waiter may stand in its other lines after it lost the room on its key.
const LEAVES_WITHIN_US: u64 = 1_000_000;

pub(super) struct Keys<'a> {
    templates: Templates<'a>,
    spans: HashMap<&'a str, Vec<Span<'a>>>,
    capacities: HashMap<&'a str, i64>,
}

impl<'a> Keys<'a> {
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let templates = Templates::of(scene);
        let mut spans = held::spans(scene);
        spans.retain(|name, _| templates.match_name(name));
        Self {
            templates,
            spans,
            capacities: held::greatest_capacities(scene),
        }
    }

    /// The parts of a wait in which the waiter may reserve its semaphores.
    pub(super) fn may_reserve(&self, ask: &Operation) -> Vec<(u64, u64)> {
        let mut parts = vec![(ask.begun, ask.ended)];
        let permits = ask.asked().map_or(&[][..], |asked| &asked.permits);
        for (name, count) in permits {
            for (from, to) in self.full(name, *count) {
                let from = match from <= ask.begun {
                    true => from,
                    false => from + LEAVES_WITHIN_US,
                };
                parts = parts
                    .into_iter()
                    .flat_map(|part| without(part, (from, to)))
                    .collect();
            }
        }
        parts
    }

    /// When a keyed semaphore surely exists and has no room for `count`.
    fn full(&self, name: &str, count: i64) -> Vec<(u64, u64)> {
        let Some(spans) = self.spans.get(name) else {
            return Vec::new();
        };
        let by_template = self.templates.greatest(name);
        let Some(capacity) = by_template.max(self.capacities.get(name).copied()) else {
            return Vec::new();
        };
        let mut changes: Vec<_> = spans
            .iter()
            .flat_map(|span| [(span.from, span.count), (span.to, -span.count)])
            .collect();
        changes.sort_unstable();
        let (mut held, mut since, mut full) = (0, None, Vec::new());
        for (at, change) in changes {
            held += change;
            match since {
                None if held + count > capacity => since = Some(at),
                Some(from) if held + count <= capacity => {
                    full.push((from, at));
                    since = None;
                }
                _ => {}
            }
        }
        full
    }
}

/// The parts of a span that are outside another span.
fn without((from, to): (u64, u64), (gone, back): (u64, u64)) -> Vec<(u64, u64)> {
    if gone >= to || back <= from || gone >= back {
        return vec![(from, to)];
    }
    let parts = [(from, gone.max(from)), (back.min(to), to)];
    parts.into_iter().filter(|(from, to)| from < to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_less_another_leaves_up_to_two_parts() {
        let left = |gone| without((10, 20), gone);
        assert!(left((5, 25)).is_empty());
        assert_eq!(left((5, 12)), [(12, 20)]);
        assert_eq!(left((12, 14)), [(10, 12), (14, 20)]);
        assert_eq!(left((18, 30)), [(10, 18)]);
        assert_eq!(left((20, 30)), [(10, 20)]);
        assert_eq!(left((16, 14)), [(10, 20)]);
    }
}
