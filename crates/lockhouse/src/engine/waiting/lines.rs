//! The lines of this process, for the semaphores that its waiters ask for.
//!
//! The lines of semaphores without a row are apart: a template has yet to create those, or they were
//! deleted. Nothing is known to be held there and no other process stands there, so no poll, no entry
//! and no published list needs them. A caller can invent any number of such names. The poller reads
//! them together and seldom, and checks that they have a template.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::time::Instant;

use super::semaphore_line::SemaphoreLine;

/// About how much memory a line takes beside its name.
const LINE_BYTES: usize = 4 * 1024;

/// The least time between two reads of the missing semaphores: the longer of `MISSING_EVERY` and of `MISSING_EACH` for each
/// of them.
const MISSING_EVERY: Duration = Duration::from_millis(400);
const MISSING_EACH: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// In a fixed order, so that random draws for each of them can be repeated in a simulated run.
    there: BTreeMap<SemaphoreName, SemaphoreLine>,
    missing: BTreeMap<SemaphoreName, SemaphoreLine>,
    /// When to read the missing ones.
    look_for_missing: Option<Instant>,
    bytes: usize,
}

impl Lines {
    /// About how much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, name: &SemaphoreName) -> Option<&SemaphoreLine> {
        self.there.get(name).or_else(|| self.missing.get(name))
    }

    pub(super) fn get_mut(&mut self, name: &SemaphoreName) -> Option<&mut SemaphoreLine> {
        match self.there.get_mut(name) {
            Some(line) => Some(line),
            None => self.missing.get_mut(name),
        }
    }

    /// The line of `name`. If there is none, `begin` makes one.
    pub(super) fn get_or_begin(
        &mut self,
        name: &SemaphoreName,
        begin: impl FnOnce() -> SemaphoreLine,
    ) -> &mut SemaphoreLine {
        if self.is_missing(name) {
            return self.missing.entry(name.clone()).or_insert_with(begin);
        }
        let bytes = &mut self.bytes;
        self.there.entry(name.clone()).or_insert_with(|| {
            *bytes += bytes_of(name);
            begin()
        })
    }

    pub(super) fn remove(&mut self, name: &SemaphoreName) {
        let removed = self.there.remove(name);
        if removed.or_else(|| self.missing.remove(name)).is_some() {
            self.bytes -= bytes_of(name);
        }
    }

    /// The lines of all semaphores that are not known to be missing.
    pub(super) fn there(&self) -> impl Iterator<Item = (&SemaphoreName, &SemaphoreLine)> {
        self.there.iter()
    }

    pub(super) fn there_mut(
        &mut self,
    ) -> impl Iterator<Item = (&SemaphoreName, &mut SemaphoreLine)> {
        self.there.iter_mut()
    }

    /// Whether the semaphore was missing when it was last read.
    pub(super) fn is_missing(&self, name: &SemaphoreName) -> bool {
        !self.missing.is_empty() && self.missing.contains_key(name)
    }

    /// Records that the semaphore has no row.
    pub(super) fn miss(&mut self, name: &SemaphoreName, now: Instant) {
        if let Some((name, line)) = self.there.remove_entry(name) {
            self.missing.insert(name, line);
            self.look_for_missing.get_or_insert(now + MISSING_EVERY);
        }
    }

    /// Records that the semaphore has a row.
    pub(super) fn find(&mut self, name: &SemaphoreName) {
        if let Some((name, line)) = self.missing.remove_entry(name) {
            self.there.insert(name, line);
        }
    }

    /// The missing semaphores, if it is time to read them.
    pub(super) fn missing(&mut self, now: Instant) -> Vec<SemaphoreName> {
        if self.look_for_missing.is_none_or(|at| now < at) {
            return Vec::new();
        }
        let many = u32::try_from(self.missing.len()).unwrap_or(u32::MAX);
        let pause = MISSING_EVERY.max(MISSING_EACH.saturating_mul(many));
        self.look_for_missing = (many > 0).then(|| now + pause);
        self.missing.keys().cloned().collect()
    }

    /// When to call [`missing`](Self::missing) next.
    pub(super) fn next_missing(&self) -> Option<Instant> {
        self.look_for_missing
    }
}

fn bytes_of(name: &SemaphoreName) -> usize {
    LINE_BYTES + name.as_str().len()
}
