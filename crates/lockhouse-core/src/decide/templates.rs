//! Templates: the first grant on a semaphore creates it, and its template's later changes apply to
//! it.

use std::borrow::Cow;

use super::{Before, WorkingSet, unknown};
use crate::{
    Ask, CapacityChange, Epoch, Note, Origin, Outcome, Pattern, Reply, SemaphoreName, SemaphoreRow,
    Template, Timestamp, USED_EVERY,
};

impl WorkingSet {
    /// The semaphore `name`. If it does not exist, the semaphore that its template would create
    /// now.
    pub(super) fn find(&self, name: &SemaphoreName) -> Option<Cow<'_, SemaphoreRow>> {
        match self.semaphores.get(name) {
            Some(semaphore) if semaphore.exists() => Some(Cow::Borrowed(semaphore)),
            deleted => self.made(name, deleted).map(Cow::Owned),
        }
    }

    /// The semaphore `name` that a template would create now; `deleted` is its row, if it has one.
    pub(super) fn made(
        &self,
        name: &SemaphoreName,
        deleted: Option<&SemaphoreRow>,
    ) -> Option<SemaphoreRow> {
        let template = Template::of(name, &self.templates)?;
        let last_fence = deleted.map_or(0, |semaphore| semaphore.fence);
        Some(SemaphoreRow {
            capacity: template.capacity,
            fence: last_fence.max(self.first_fence()),
            deleted_at: None,
            origin: Some(self.origin(template)),
            ..SemaphoreRow::undefined(name.clone(), self.now)
        })
    }

    /// Creates the semaphores of `ask` that do not exist. Each has a template, or [`acquire`](Self::acquire) had refused it.
    pub(super) fn create_missing(&mut self, ask: &Ask) {
        if self.templates.is_empty() {
            return;
        }
        for (name, _) in ask.permits() {
            if let Some(Cow::Owned(made)) = self.find(name) {
                self.before.insert(name.clone(), Before::of(&made));
                self.semaphores.insert(name.clone(), made);
            }
        }
    }

    /// The origin of a semaphore that `template` creates now.
    pub(super) fn origin(&self, template: &Template) -> Origin {
        Origin {
            template: template.pattern.clone(),
            is_resized: false,
            used_at: self.now,
        }
    }

    /// The fences of a new semaphore begin above this one (P7).
    pub(super) fn first_fence(&self) -> u64 {
        let epoch = self.semaphores.get(&Epoch::semaphore());
        epoch.map_or(0, |epoch| epoch.fence)
    }

    /// Sets the capacity to that of the template, or deletes the semaphore if nobody has used it for the template's idle
    /// time. Neither if an operator resized it: the template would create it again, with its own capacity.
    ///
    /// When the store's clock was set ahead, the entries of live processes in its line look as old as those of dead ones. So
    /// old entries count as a use once, and the semaphore is kept for another idle time. A live process writes its entry
    /// again (P11).
    pub(super) fn follow(&mut self, name: &SemaphoreName) -> Outcome {
        let found = self.semaphores.get(name).filter(|s| s.exists());
        let mut semaphore = found.ok_or_else(|| unknown(name))?.clone();
        let followed = |semaphore, is_resized| {
            Ok(Reply::Followed {
                semaphore,
                is_resized,
            })
        };
        let keyed = semaphore.origin.as_mut();
        let Some(origin) = keyed.filter(|origin| !origin.is_resized) else {
            return followed(semaphore, false);
        };
        let Some(template) = self.template(&origin.template).cloned() else {
            return followed(semaphore, false);
        };
        let is_idle = origin.used_at <= template.idle_since(self.now);
        let is_resized = semaphore.capacity != template.capacity;
        let is_unused = is_idle && semaphore.in_use == 0 && !semaphore.line.is_waited_in(self.now);
        if is_unused && !semaphore.line.is_unwritten_since(origin.used_at) {
            origin.used_at = self.now;
            self.semaphores.insert(name.clone(), semaphore.clone());
            self.written.insert(name.clone());
            return followed(semaphore, false);
        }
        if is_unused {
            semaphore.deleted_at = Some(self.now);
            semaphore.origin = None;
        } else if is_resized {
            let note = format!("template {}", template.pattern);
            self.capacity_changes.push(CapacityChange {
                semaphore: name.clone(),
                old_capacity: semaphore.capacity,
                new_capacity: template.capacity,
                changed_by: None,
                note: Note::parse(note).ok(), // a pattern is shorter than a note may be
                changed_at: self.now,
            });
            semaphore.fence += 1;
            semaphore.capacity = template.capacity;
            semaphore.updated_at = self.now;
        } else {
            return followed(semaphore, false);
        }
        self.semaphores.insert(name.clone(), semaphore.clone());
        self.written.insert(name.clone());
        let is_resized = semaphore.exists();
        followed(semaphore, is_resized)
    }

    fn template(&self, pattern: &Pattern) -> Option<&Template> {
        let mut templates = self.templates.iter();
        templates.find(|template| template.pattern == *pattern)
    }
}

impl Origin {
    /// Records that a permit is granted on the semaphore at `now`.
    pub(super) fn note_use(&mut self, now: Timestamp) {
        if now.duration_since(self.used_at).unsigned_abs() >= USED_EVERY {
            self.used_at = now;
        }
    }
}
