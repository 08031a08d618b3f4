//! Commands that need the templates, as they name a semaphore that does not exist.
//!
//! Only the rows tell whether a name exists. So a batch that meets a locked template reads the semaphores that it names, and
//! only its commands on names that do not exist wait for the templates.

use std::collections::BTreeSet;

use lockhouse_core::{Command, Footprint, SemaphoreName};

use super::super::queue::Queued;
use super::Lane;

/// Names in a batch that a template may have to create a semaphore for.
#[derive(Default)]
pub(super) struct Unmade(BTreeSet<SemaphoreName>);

impl Unmade {
    /// The rows that `queued` needs.
    pub(super) fn needs(&self, queued: &Queued) -> Footprint {
        let command = &queued.command;
        let mut names = command.semaphores();
        let mut needs = queued.needs();
        needs.templates |= command.may_use_a_template() && names.any(|name| self.0.contains(name));
        needs
    }
}

impl Lane {
    /// None unless templates are `locked`.
    pub(super) async fn unmade(&self, locked: &Footprint) -> Unmade {
        if !locked.templates {
            return Unmade::default();
        }
        let commands = self.batch.commands.iter();
        let may_use = commands.clone().filter(|it| it.may_use_a_template());
        let mut names: BTreeSet<_> = may_use.flat_map(Command::semaphores).cloned().collect();
        let asked: Vec<_> = names.iter().cloned().collect();
        match self.driver.store.named(&asked).await {
            Ok(found) => {
                for semaphore in found {
                    names.remove(&semaphore.name);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "semaphores that a template may create could not be read");
                return Unmade::default();
            }
        }
        let deleted = commands.filter_map(Command::may_delete);
        names.extend(deleted.cloned());
        Unmade(names)
    }
}
