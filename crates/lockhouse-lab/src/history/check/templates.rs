//! P5, P9: templates. Only a grant creates a semaphore of a template, and no call finds it unknown once the template was set.
//!
//! Such a semaphore may be deleted at any time while none of its permits is held. A later grant creates it again with the
//! template's capacity at that time. No call of a history deletes a template.

use std::collections::HashSet;

use super::facts::may_be_done;
use super::scene::Scene;
use crate::history::{Answer, Call, Operation, Promise, Refused, Violation};

/// The templates that were set, or may have been.
pub(super) struct Templates<'a> {
    set: Vec<(&'a Operation, &'a str, i64)>,
}

impl<'a> Templates<'a> {
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let calls = scene.operations.iter().copied().filter(|o| may_be_done(o));
        let set = calls.filter_map(|operation| match &operation.call {
            Call::Template { pattern, capacity } => {
                Some((operation, pattern.strip_suffix('*')?, *capacity))
            }
            _ => None,
        });
        Self { set: set.collect() }
    }

    /// The templates that may make `name`.
    fn matching(&self, name: &str) -> impl Iterator<Item = (&'a Operation, i64)> {
        let set = self
            .set
            .iter()
            .filter(move |(_, prefix, _)| name.starts_with(prefix));
        set.map(|(operation, _, capacity)| (*operation, *capacity))
    }

    /// Whether a template may make `name`.
    pub(super) fn match_name(&self, name: &str) -> bool {
        self.matching(name).next().is_some()
    }

    /// The greatest capacity that a template may have given `name`.
    pub(super) fn greatest(&self, name: &str) -> Option<i64> {
        self.matching(name).map(|(_, capacity)| capacity).max()
    }
}

pub(super) fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let templates = Templates::of(scene);
    if templates.set.is_empty() {
        return Vec::new();
    }
    let mut found = unknown(scene, &templates);
    found.extend(left_behind(scene, &templates));
    found
}

/// P9: asks that were refused with an unknown semaphore, although templates for all their
/// semaphores were certainly set.
fn unknown(scene: &Scene<'_>, templates: &Templates<'_>) -> Vec<Violation> {
    let denied = scene.operations.iter().filter_map(|operation| {
        let asked = operation.asked()?;
        let is_set = |(name, _): &(String, i64)| {
            let mut set = templates.matching(name);
            set.any(|(set, _)| set.answer == Answer::Done && set.ended < operation.begun)
        };
        let is_denied = operation.answer == Answer::Refused(Refused::UnknownSemaphore)
            && asked.permits.iter().all(is_set);
        let what = format!(
            "{} was refused for an unknown semaphore, although templates match all its names",
            asked.id
        );
        is_denied.then(|| Violation::new(Promise::P9, what).by([*operation]))
    });
    denied.collect()
}

/// P5: a semaphore that nobody defined and on which no permit was ever granted.
fn left_behind(scene: &Scene<'_>, templates: &Templates<'_>) -> Vec<Violation> {
    let Some(rows) = scene.rows else {
        return Vec::new();
    };
    let defined = scene.operations.iter().filter_map(|o| match &o.call {
        Call::Define { semaphore, .. } => Some(semaphore),
        _ => None,
    });
    let granted = rows.permits.iter().map(|row| &row.semaphore);
    let made: HashSet<&String> = defined.chain(granted).collect();
    let left = rows.semaphores.iter().filter(|row| {
        templates.match_name(&row.name) && !row.is_deleted && !made.contains(&row.name)
    });
    let left = left.map(|row| {
        let asks = scene.operations.iter().copied().filter(|operation| {
            let asked = operation.asked();
            asked.is_some_and(|asked| asked.permits.iter().any(|(name, _)| *name == row.name))
        });
        let what = format!("{} is there, and nothing was granted on it", row.name);
        Violation::new(Promise::P5, what)
            .by(asks.take(1).chain(templates.set.first().map(|set| set.0)))
    });
    left.collect()
}
