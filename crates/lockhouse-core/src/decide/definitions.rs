//! Creates, resizes and deletes semaphores, and raises fences.

use std::collections::BTreeMap;

use super::{WorkingSet, in_use, unknown};
use crate::command::Definition;
use crate::{
    CapacityChange, Epoch, MAX_SLOTTED_CAPACITY, Outcome, Refusal, Reply, SemaphoreName,
    SemaphoreRow, Slots, Template, Timestamp,
};

impl WorkingSet {
    pub(super) fn define(&mut self, wanted: &Definition) -> Outcome {
        let (name, capacity, now) = (&wanted.name, wanted.capacity, self.now);
        let first_fence = self.first_fence();
        let template = Template::of(name, &self.templates).filter(|_| wanted.if_missing);
        let template = template.filter(|template| template.capacity == capacity);
        let origin = template.map(|template| self.origin(template));
        let found = self.semaphores.get(name).is_some_and(SemaphoreRow::exists);
        if !found && !wanted.creates() {
            return Err(unknown(name));
        }
        let semaphore = row(&mut self.semaphores, name, now);
        let created = !semaphore.exists();
        let resized = !created && semaphore.capacity != capacity;
        let was_slotted = !created && semaphore.is_slotted();
        let slotted = wanted.slots.unwrap_or(was_slotted);
        if slotted && capacity.value() > MAX_SLOTTED_CAPACITY {
            let name = name.clone();
            return Err(Refusal::TooManySlots { name, capacity });
        }
        let expected = match wanted.if_missing {
            true => Some(capacity),
            false => wanted.expected,
        };
        if let Some(expected) = expected.filter(|expected| *expected != semaphore.capacity)
            && resized
        {
            return Err(Refusal::CapacityChanged {
                name: name.clone(),
                expected,
                capacity: semaphore.capacity,
            });
        }
        let switched = !created && slotted != was_slotted;
        if switched && wanted.if_missing {
            let name = name.clone();
            return Err(Refusal::SlotsDiffer { name, was_slotted });
        }
        // A permit keeps its slots until it ends. So slots are turned on or off only while no
        // permit is live.
        if switched && semaphore.in_use > 0 {
            return Err(in_use(semaphore));
        }
        if created {
            semaphore.created_at = now;
            semaphore.deleted_at = None;
            semaphore.fence = semaphore.fence.max(first_fence);
            // A template's semaphores have no slots.
            semaphore.origin = origin.filter(|_| !slotted);
        }
        if resized || switched {
            // A semaphore that an operator resized no longer follows its template.
            if let Some(origin) = &mut semaphore.origin {
                origin.is_resized = true;
            }
        }
        if resized {
            // A resize takes a fence, so that fences show which grants came before it, without a
            // clock.
            semaphore.fence += 1;
            self.capacity_changes.push(CapacityChange {
                semaphore: name.clone(),
                old_capacity: semaphore.capacity,
                new_capacity: capacity,
                changed_by: wanted.changed_by.clone(),
                note: wanted.note.clone(),
                changed_at: now,
            });
        }
        if created || switched {
            semaphore.slots = slotted.then(Slots::default);
        }
        if created || resized || switched {
            semaphore.capacity = capacity;
            semaphore.updated_at = now;
            self.written.insert(name.clone());
        }
        Ok(Reply::Defined {
            semaphore: semaphore.clone(),
            created,
        })
    }

    pub(super) fn delete(&mut self, name: &SemaphoreName) -> Outcome {
        let semaphore = self
            .semaphores
            .get_mut(name)
            .filter(|semaphore| semaphore.exists())
            .ok_or_else(|| unknown(name))?;
        if semaphore.in_use > 0 {
            return Err(in_use(semaphore));
        }
        semaphore.deleted_at = Some(self.now);
        semaphore.origin = None;
        self.written.insert(name.clone());
        Ok(Reply::Deleted)
    }

    pub(super) fn raise_fence(&mut self, name: &SemaphoreName, epoch: Epoch) -> Outcome {
        let semaphore = row(&mut self.semaphores, name, self.now);
        let is_behind = semaphore.fence < epoch.fence();
        semaphore.fence = semaphore.fence.max(epoch.fence());
        let raised = semaphore.clone();
        if is_behind {
            self.written.insert(name.clone());
        }
        Ok(Reply::Raised(raised))
    }
}

/// The row of a semaphore. A semaphore without a row counts as deleted.
fn row<'a>(
    semaphores: &'a mut BTreeMap<SemaphoreName, SemaphoreRow>,
    name: &SemaphoreName,
    now: Timestamp,
) -> &'a mut SemaphoreRow {
    let undefined = || SemaphoreRow::undefined(name.clone(), now);
    semaphores.entry(name.clone()).or_insert_with(undefined)
}
