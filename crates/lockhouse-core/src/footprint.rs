//! Footprints: the rows that a store must lock and load before it decides.

use std::collections::{BTreeSet, HashSet};
use std::mem;

use crate::{Command, Epoch, ExternalId, Gap, Loaded, Owner, SemaphoreName, SemaphoreRow};

/// The rows that a list of commands touches, in the order in which to lock them: semaphores, then
/// requests, then owners' sessions, each by bytes.
///
/// A command that ends a request touches the semaphores of the request, which are known only once
/// the request is loaded. So a store loads, calls [`Footprint::grow`], and begins again with the
/// larger footprint if a row was missing. A request's permits never change, so one more load is
/// usually enough.
///
/// Only the rows tell whether a definition creates its semaphore. If it does, it also touches the
/// row of the store's [`Epoch`]. The same is true of an ask that names a semaphore which does not
/// exist, since a [`Template`](crate::Template) may create it.
///
/// The epoch and the templates are read and not locked, so that a transaction which keeps one of
/// them locked delays no batch (P13). They are read after the semaphores are locked.
///
/// - **The epoch.** A command that raises all fences raises the epoch first. A batch that creates a
///   semaphore has inserted its row before it reads the epoch. So the batch either sees the new
///   epoch, or the semaphore's row is found and raised too. A purge of a deleted semaphore raises
///   the epoch before it deletes the row, so a batch that finds no row sees the new epoch.
/// - **Templates.** A batch that reads a template just before it changes may create a semaphore
///   with the old capacity. The semaphore then [follows](crate::Command::Follow) its template as
///   the others do.
///
/// A renewal touches no semaphore, unless it comes too late. So holders that renew do not block
/// each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Semaphores, to lock first.
    pub semaphores: BTreeSet<SemaphoreName>,
    /// Requests, to lock next.
    pub requests: BTreeSet<ExternalId>,
    /// Owners whose sessions to lock last.
    pub owners: BTreeSet<Owner>,
    /// Gaps between rows that another transaction keeps locked, so that nobody can insert a row there.
    /// Only [errors](crate::store::Error::locked) name them: a batch locks no gap. A store without gap locks ignores them.
    pub gaps: BTreeSet<Gap>,
    /// Whether to read the row of the store's [`Epoch`] too, after the locks are held. A batch
    /// needs it if it may create a semaphore.
    pub epoch: bool,
    /// Whether to read all templates too, after the locks are held. A batch needs them if it names
    /// a semaphore that does not exist, or updates one from its template.
    pub templates: bool,
}

impl Footprint {
    /// The rows that `commands` name, and the semaphores `also`, which their requests are known to
    /// hold.
    pub fn of<'a>(commands: &[Command], also: impl IntoIterator<Item = &'a SemaphoreName>) -> Self {
        let mut footprint = Self::default();
        footprint.semaphores.extend(also.into_iter().cloned());
        for command in commands {
            footprint.semaphores.extend(command.semaphores().cloned());
            footprint.requests.extend(command.external_id().cloned());
            footprint.owners.extend(command.session_of().cloned());
            footprint.templates |= matches!(command, Command::Follow { .. });
        }
        footprint
    }

    /// Whether the footprint has no row to lock.
    pub fn is_empty(&self) -> bool {
        self.semaphores.is_empty()
            && self.requests.is_empty()
            && self.owners.is_empty()
            && self.gaps.is_empty()
    }

    /// Whether the footprint has exactly one row to lock.
    pub fn locks_one_row(&self) -> bool {
        self.semaphores.len() + self.requests.len() + self.owners.len() == 1
    }

    /// The semaphores to read: those to lock, and the epoch.
    pub fn semaphores_to_read(&self) -> impl Iterator<Item = SemaphoreName> {
        let locked = self.semaphores.iter().cloned();
        locked.chain(self.epoch.then(Epoch::semaphore))
    }

    /// Whether both lock the same row. Gaps do not count.
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.semaphores.is_disjoint(&other.semaphores)
            || !self.requests.is_disjoint(&other.requests)
            || !self.owners.is_disjoint(&other.owners)
    }

    /// Adds the rows of `other`.
    pub fn extend(&mut self, other: Self) {
        self.semaphores.extend(other.semaphores);
        self.requests.extend(other.requests);
        self.owners.extend(other.owners);
        self.gaps.extend(other.gaps);
        self.epoch |= other.epoch;
        self.templates |= other.templates;
    }

    /// Keeps only the rows that `other` has too.
    pub fn intersect(&mut self, other: &Self) {
        self.semaphores
            .retain(|name| other.semaphores.contains(name));
        self.requests.retain(|id| other.requests.contains(id));
        self.owners.retain(|owner| other.owners.contains(owner));
        self.gaps.retain(|gap| other.gaps.contains(gap));
        self.epoch &= other.epoch;
        self.templates &= other.templates;
    }

    /// Adds the rows that `commands` turn out to touch: the semaphores of live requests that a
    /// command ends or that have expired, and the store's epoch if a command creates a semaphore.
    /// Returns whether one of them is missing in `loaded`.
    pub fn grow(&mut self, commands: &[Command], loaded: &Loaded) -> bool {
        let ended: HashSet<&ExternalId> = commands
            .iter()
            .filter(|command| matches!(command, Command::End { .. }))
            .filter_map(Command::external_id)
            .collect();
        let live = loaded.requests.values().filter(|request| request.is_live());
        let may_end = live.filter(|request| {
            request.lapse(loaded.now).is_some() || ended.contains(&request.external_id)
        });
        let held = may_end.flat_map(|request| &request.permits);
        let mut is_missing = false;
        for permit in held {
            if !loaded.semaphores.contains_key(&permit.semaphore) {
                self.semaphores.insert(permit.semaphore.clone());
                is_missing = true;
            }
        }
        let may_use_a_template = may_use_a_template(commands, loaded);
        if may_use_a_template || creates(commands, loaded) {
            is_missing |= !mem::replace(&mut self.epoch, true);
        }
        if may_use_a_template {
            is_missing |= !mem::replace(&mut self.templates, true);
        }
        is_missing
    }
}

/// Whether one of `commands` names a semaphore that a template may have to create.
fn may_use_a_template(commands: &[Command], loaded: &Loaded) -> bool {
    let deletes = commands
        .iter()
        .any(|command| matches!(command, Command::Delete { .. } | Command::Follow { .. }));
    let mut named = commands.iter().filter(|c| c.may_use_a_template());
    named.any(|command| {
        let mut names = command.semaphores();
        names.any(|name| deletes || !exists(loaded, name))
    })
}

fn exists(loaded: &Loaded, name: &SemaphoreName) -> bool {
    let found = loaded.semaphores.get(name);
    found.is_some_and(SemaphoreRow::exists)
}

/// Whether one of `commands` may create a semaphore.
fn creates(commands: &[Command], loaded: &Loaded) -> bool {
    let defined = commands.iter().filter_map(|command| match command {
        Command::Define(definition) => definition.creates().then_some(&definition.name),
        _ => None,
    });
    let deletes = commands
        .iter()
        .any(|command| matches!(command, Command::Delete { .. }));
    defined
        .into_iter()
        .any(|name| deletes || !exists(loaded, name))
}
