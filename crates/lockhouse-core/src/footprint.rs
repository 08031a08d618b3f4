//! What a store must lock and load before it decides.

use std::collections::{BTreeSet, HashSet};

use crate::{Command, Epoch, ExternalId, Loaded, Owner, Semaphore, SemaphoreName};

/// The semaphores and requests that a list of commands touches, each in the order to lock it in:
/// semaphores first, then requests, then owners' sessions, each by bytes.
///
/// A command that ends a request touches the semaphores that the request holds, and those are known
/// only once the request is loaded. So a store loads, asks [`Footprint::grow`], and begins again with
/// the larger footprint if something was missing. A request's permits never change, so once is mostly
/// enough.
///
/// Nor is it known before whether a definition creates the semaphore. Then the row of the store's
/// [`Epoch`] is touched as well. The same goes for an ask that names a semaphore which does not exist: a
/// [`Template`](crate::Template) may create it.
///
/// A renewal needs no semaphore, unless it comes too late: many holders that renew are not in each
/// other's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// To lock first.
    pub semaphores: BTreeSet<SemaphoreName>,
    /// To lock then.
    pub requests: BTreeSet<ExternalId>,
    /// Owners whose sessions to lock last.
    pub owners: BTreeSet<Owner>,
    /// Whether all templates are read too, and locked against changes, after those. Only a batch reads them that
    /// names a semaphore which does not exist, or has one follow its template.
    pub templates: bool,
}

impl Footprint {
    /// What `commands` name, and `also` the semaphores that their requests are known to hold.
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

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.semaphores.is_empty()
            && self.requests.is_empty()
            && self.owners.is_empty()
            && !self.templates
    }

    /// Whether it has just one row.
    pub fn has_one_row(&self) -> bool {
        self.semaphores.len() + self.requests.len() + self.owners.len() == 1 && !self.templates
    }

    /// Whether both have a row in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.semaphores.is_disjoint(&other.semaphores)
            || !self.requests.is_disjoint(&other.requests)
            || !self.owners.is_disjoint(&other.owners)
            || self.templates && other.templates
    }

    /// Adds the rows of `other`.
    pub fn extend(&mut self, other: Self) {
        self.semaphores.extend(other.semaphores);
        self.requests.extend(other.requests);
        self.owners.extend(other.owners);
        self.templates |= other.templates;
    }

    /// Keeps those rows that `other` has too.
    pub fn intersect(&mut self, other: &Self) {
        self.semaphores
            .retain(|name| other.semaphores.contains(name));
        self.requests.retain(|id| other.requests.contains(id));
        self.owners.retain(|owner| other.owners.contains(owner));
        self.templates &= other.templates;
    }

    /// Adds the semaphores that `commands` may give permits back to, and the store's epoch if they
    /// create one; whether one of them is missing in `loaded`. Those are what live requests hold which
    /// a command ends, or that are over.
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
        if creates(commands, loaded) {
            // It has no row before the first time that it is raised: looked for once, it is not missing.
            is_missing |= self.semaphores.insert(Epoch::semaphore());
        }
        if !self.templates && may_use_a_template(commands, loaded) {
            self.templates = true;
            self.semaphores.insert(Epoch::semaphore());
            is_missing = true;
        }
        is_missing
    }
}

/// Whether one of `commands` names a semaphore that does not exist, or that another one deletes.
fn may_use_a_template(commands: &[Command], loaded: &Loaded) -> bool {
    let deleted: HashSet<_> = commands.iter().filter_map(Command::may_delete).collect();
    let mut named = commands.iter().filter(|c| c.may_use_a_template());
    named.any(|command| {
        let mut names = command.semaphores();
        names.any(|name| deleted.contains(name) || !exists(loaded, name))
    })
}

fn exists(loaded: &Loaded, name: &SemaphoreName) -> bool {
    let found = loaded.semaphores.get(name);
    found.is_some_and(Semaphore::exists)
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
