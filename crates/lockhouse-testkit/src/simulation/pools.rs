//! The part of the book about semaphores: their capacity and permits, and the template that creates some of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use lockhouse::{ExternalId, SemaphoreName, Slots, Template, Timestamp};
use lockhouse_core::{Definition, Grant as Permit, Pattern, SemaphoreRow, TemplateDefinition};

use super::violation::{Check, ensure};

#[derive(Debug, Default)]
pub(super) struct Pools {
    all: BTreeMap<SemaphoreName, Pool>,
    template: Option<Template>,
    /// The changes of capacity: the commit, the semaphore and its new capacity. It is 0 if no ask can be granted.
    capacities: Vec<(u64, SemaphoreName, u32)>,
    /// The creations and deletions: the commit, the semaphore and whether it exists since.
    there: Vec<(u64, SemaphoreName, bool)>,
}

#[derive(Clone, Debug, Default)]
struct Pool {
    capacity: u32,
    live: u32,
    fence: u64,
    exists: bool,
    /// The taken slots, if the semaphore has slots.
    slots: Option<Slots>,
    origin: Origin,
    /// When a permit was last granted.
    used: Option<Timestamp>,
}

/// The origin of a semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Operator,
    Template,
    /// A template created the semaphore, and an operator has resized it since.
    Resized,
}

impl Origin {
    fn of(semaphore: &SemaphoreRow) -> Self {
        match &semaphore.origin {
            None => Self::Operator,
            Some(origin) if origin.is_resized => Self::Resized,
            Some(_) => Self::Template,
        }
    }
}

impl Pool {
    /// P1: each slot belongs to one live permit, and a permit gets the lowest free slots.
    fn take(&mut self, id: &ExternalId, permit: &Permit) -> Check {
        let name = &permit.semaphore;
        let (taken, slots) = match (&mut self.slots, &permit.slots) {
            (None, None) => return Ok(()),
            (Some(taken), Some(slots)) => (taken, slots),
            (taken, slots) => {
                return ensure(false, "P1", || {
                    format!("{id} is granted slots {slots:?} of {name}, which has {taken:?}")
                });
            }
        };
        let shared = taken.shared_with(slots);
        let is_whole = shared.is_empty() && slots.len() == permit.count.value();
        let is_within = slots.iter().all(|slot| slot < self.capacity);
        ensure(is_whole && is_within, "P1", || {
            format!("{id} is granted slots {slots:?} of {name}, with {taken:?} taken")
        })?;
        let free = (0..self.capacity).filter(|slot| !taken.contains(*slot));
        let lowest = Slots::of(free.take(slots.len() as usize));
        ensure(lowest.as_ref() == Ok(slots), "slots", || {
            format!("{id} is granted slots {slots:?} of {name}, the lowest free are {lowest:?}")
        })?;
        taken.extend(slots);
        Ok(())
    }
}

impl Pools {
    /// Enters a permit of a grant. A semaphore that does not exist is created by its template.
    pub(super) fn grant(
        &mut self,
        commit: u64,
        id: &ExternalId,
        permit: &Permit,
        now: Timestamp,
    ) -> Check {
        let name = &permit.semaphore;
        if !self.exists(name) {
            self.create(name);
            self.note_capacity(commit, name);
        }
        let pool = self.all.entry(name.clone()).or_default();
        ensure(permit.fence > pool.fence, "P7", || {
            format!(
                "{id} is granted {name} under {}, after {}",
                permit.fence, pool.fence
            )
        })?;
        pool.fence = permit.fence;
        pool.live += permit.count.value();
        pool.used = Some(now);
        ensure(pool.exists && pool.live <= pool.capacity, "P1", || {
            format!(
                "with {id}, {} of {} permits of {name} are live",
                pool.live, pool.capacity
            )
        })?;
        pool.take(id, permit)
    }

    fn create(&mut self, name: &SemaphoreName) {
        let Some(capacity) = self.template_of(name).map(|t| t.capacity.value()) else {
            return;
        };
        let pool = self.all.entry(name.clone()).or_default();
        pool.exists = true;
        pool.capacity = capacity;
        pool.slots = None;
        pool.origin = Origin::Template;
    }

    /// Enters the end of a permit.
    pub(super) fn give_back(&mut self, permit: &Permit) {
        let pool = self.all.entry(permit.semaphore.clone()).or_default();
        pool.live -= permit.count.value();
        if let (Some(taken), Some(slots)) = (&mut pool.slots, &permit.slots) {
            taken.remove(slots);
        }
    }

    pub(super) fn define(
        &mut self,
        commit: u64,
        wanted: &Definition,
        semaphore: &SemaphoreRow,
        created: bool,
    ) -> Check {
        let name = &semaphore.name;
        let capacity = semaphore.capacity.value();
        let of_template = self
            .template_of(name)
            .is_some_and(|template| wanted.if_missing && template.capacity == semaphore.capacity);
        let pool = self.all.entry(name.clone()).or_default();
        ensure(created != pool.exists, "answers", || {
            format!("{name} is told to be created: {created}, it was {pool:?}")
        })?;
        let was_slotted = !created && pool.slots.is_some();
        let slotted = wanted.slots.unwrap_or(was_slotted);
        let is_switched = slotted != was_slotted;
        ensure(!is_switched || pool.live == 0, "P1", || {
            format!(
                "{name} is to have slots: {slotted}, with {} live",
                pool.live
            )
        })?;
        if created {
            pool.origin = match of_template && !slotted {
                true => Origin::Template,
                false => Origin::Operator,
            };
        } else if pool.origin == Origin::Template && (is_switched || capacity != pool.capacity) {
            pool.origin = Origin::Resized;
        }
        if created || is_switched {
            pool.slots = slotted.then(Slots::default);
        }
        pool.capacity = capacity;
        pool.exists = true;
        pool.fence = pool.fence.max(semaphore.fence);
        self.note_capacity(commit, name);
        self.compare(semaphore)
    }

    pub(super) fn delete(&mut self, commit: u64, name: &SemaphoreName) -> Check {
        let pool = self.all.entry(name.clone()).or_default();
        pool.exists = false;
        ensure(pool.live == 0, "P2", || {
            format!("{name} is deleted with {} live", pool.live)
        })?;
        self.note_capacity(commit, name);
        Ok(())
    }

    /// Enters an upkeep of a template's semaphore: it was resized with the template, deleted as unused, or left unchanged.
    pub(super) fn follow(
        &mut self,
        commit: u64,
        semaphore: &SemaphoreRow,
        is_resized: bool,
        now: Timestamp,
    ) -> Check {
        let name = &semaphore.name;
        let pool = self.all.get(name).cloned().unwrap_or_default();
        let template = self
            .template_of(name)
            .filter(|_| pool.origin == Origin::Template);
        let off = || format!("{semaphore:?} follows {template:?}, it was {pool:?}");
        if !semaphore.exists() {
            let idle = template.map(|template| template.idle.as_duration());
            let unused = pool.used.map(|used| now.duration_since(used));
            let unused = unused.map(|unused| unused.try_into().unwrap_or_default());
            ensure(pool.live == 0, "P2", off)?;
            ensure(idle.is_some() && unused >= idle, "templates", off)?;
            return self.delete(commit, name);
        }
        let capacity = template.map(|template| template.capacity.value());
        let is_due = capacity.is_some_and(|capacity| capacity != pool.capacity);
        // The answer to an operator must hold.
        ensure(
            is_resized == is_due,
            if is_resized { "P9" } else { "templates" },
            off,
        )?;
        if let Some(capacity) = capacity.filter(|_| is_due) {
            let pool = self.all.entry(name.clone()).or_default();
            pool.capacity = capacity;
            pool.fence = pool.fence.max(semaphore.fence);
            self.note_capacity(commit, name);
        }
        self.compare(semaphore)
    }

    pub(super) fn set_template(
        &mut self,
        commit: u64,
        definition: &TemplateDefinition,
        (template, created): &(Template, bool),
    ) -> Check {
        let before = self.template.replace(template.clone());
        self.note_capacities(commit);
        let is_it = template.capacity == definition.capacity
            && template.idle == definition.idle
            && *created == before.is_none();
        ensure(is_it, "answers", || {
            format!("{definition:?} is set as {template:?}, created: {created}, it was {before:?}")
        })
    }

    pub(super) fn delete_template(&mut self, commit: u64, there_was: bool) -> Check {
        let before = self.template.take();
        self.note_capacities(commit);
        ensure(there_was == before.is_some(), "answers", || {
            format!("a template is deleted: {there_was}, it was {before:?}")
        })
    }

    /// P2 and P7: compares a semaphore's row, or an answer with it.
    pub(super) fn compare(&self, semaphore: &SemaphoreRow) -> Check {
        let name = &semaphore.name;
        let pool = self.all.get(name).cloned().unwrap_or_default();
        ensure(semaphore.in_use == pool.live, "P2", || {
            format!(
                "{name} counts {} in use, {} are live",
                semaphore.in_use, pool.live
            )
        })?;
        let is_it = self.capacity_of(name) == Some(semaphore.capacity.value());
        ensure(is_it, "P1", || format!("{semaphore:?} was {pool:?}"))?;
        ensure(semaphore.fence >= pool.fence, "P7", || {
            format!(
                "the fence of {name} is {}, it was {}",
                semaphore.fence, pool.fence
            )
        })?;
        if !pool.exists {
            return Ok(());
        }
        ensure(semaphore.slots == pool.slots, "P2", || {
            format!(
                "{name} counts slots {:?}, {:?} are held",
                semaphore.slots, pool.slots
            )
        })?;
        ensure(Origin::of(semaphore) == pool.origin, "templates", || {
            format!("{semaphore:?} was {pool:?}")
        })
    }

    /// P2 and P5: the row agrees with the book, as only a grant creates a template's semaphore.
    pub(super) fn compare_row(&self, name: &SemaphoreName, row: Option<&SemaphoreRow>) -> Check {
        let promise = match self.template_of(name) {
            Some(_) => "P5",
            None => "P2",
        };
        ensure(row.is_some() == self.exists(name), promise, || {
            format!("{name} is there: {}", row.is_some())
        })?;
        row.map_or(Ok(()), |row| self.compare(row))
    }

    pub(super) fn exists(&self, name: &SemaphoreName) -> bool {
        self.all.get(name).is_some_and(|pool| pool.exists)
    }

    /// Whether a template made `name`, or would make it now.
    pub(super) fn is_keyed(&self, name: &SemaphoreName) -> bool {
        match self.all.get(name).filter(|pool| pool.exists) {
            Some(pool) => pool.origin != Origin::Operator,
            None => self.template_of(name).is_some(),
        }
    }

    /// The capacity in force for an ask, which a template may give. `None` if an ask finds the semaphore unknown.
    pub(super) fn capacity_of(&self, name: &SemaphoreName) -> Option<u32> {
        match self.all.get(name).filter(|pool| pool.exists) {
            Some(pool) => Some(pool.capacity),
            None => self.template_of(name).map(|t| t.capacity.value()),
        }
    }

    pub(super) fn live(&self, name: &SemaphoreName) -> u32 {
        self.all.get(name).map_or(0, |pool| pool.live)
    }

    /// The existing semaphores that follow a template and are deleted when unused, and the idle time after which they are.
    pub(super) fn to_be_deleted(&self) -> Option<(Vec<SemaphoreName>, Duration)> {
        let idle = self.template.as_ref()?.idle.as_duration();
        let made = self.all.iter().filter(|(name, pool)| {
            pool.exists && pool.origin == Origin::Template && self.template_of(name).is_some()
        });
        Some((made.map(|(name, _)| name.clone()).collect(), idle))
    }

    fn template_of(&self, name: &SemaphoreName) -> Option<&Template> {
        let template = self.template.as_ref()?;
        template.pattern.matches(name).then_some(template)
    }

    fn note_capacity(&mut self, commit: u64, name: &SemaphoreName) {
        let capacity = self.capacity_of(name).unwrap_or(0);
        self.capacities.push((commit, name.clone(), capacity));
        self.there.push((commit, name.clone(), self.exists(name)));
    }

    /// Notes the capacities of semaphores without a row, which depend on the template.
    fn note_capacities(&mut self, commit: u64) {
        let pattern: Pattern = super::plan::KEYS.parse().expect("it is a pattern");
        for name in super::plan::NAMES {
            let name = SemaphoreName::parse(name).expect("it is a name");
            if pattern.matches(&name) && !self.exists(&name) {
                self.note_capacity(commit, &name);
            }
        }
    }

    /// Whether `name` existed from the commit `from` until just before another, and so had a line.
    pub(super) fn was_always_there(&self, name: &SemaphoreName, from: u64, before: u64) -> bool {
        let of_it = || self.there.iter().filter(|(_, its, _)| its == name);
        let at_first = of_it().rfind(|(at, ..)| *at <= from);
        let mut later = of_it().filter(|(at, ..)| (from + 1..before).contains(at));
        at_first.is_some_and(|(.., is_there)| *is_there) && later.all(|(.., is_there)| *is_there)
    }

    /// Whether `name` could have given `count` at all times between these commits.
    pub(super) fn could_always_give(
        &self,
        name: &SemaphoreName,
        count: u32,
        commits: RangeInclusive<u64>,
    ) -> bool {
        let of_it = || self.capacities.iter().filter(|(_, its, _)| its == name);
        let at_first = of_it().rfind(|(at, ..)| at < commits.start());
        let later = of_it().filter(|(at, ..)| commits.contains(at));
        let mut all = at_first.into_iter().chain(later);
        all.all(|(_, _, capacity)| *capacity >= count)
    }
}
