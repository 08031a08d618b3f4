//! What a store must lock and load before it decides.

use std::collections::BTreeSet;

use crate::{Command, ExternalId, Loaded, Owner, SemaphoreName};

/// The semaphores and requests that a list of commands touches, each in the order to lock it in:
/// semaphores first, then requests, then owners' sessions, each by bytes.
///
/// A command on a request touches the semaphores that the request holds, and those are known only
/// once the request is loaded. So a store loads, asks [`Footprint::grow`], and begins again with
/// the larger footprint if it grew. A request's permits never change, so once is mostly enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// To lock first.
    pub semaphores: BTreeSet<SemaphoreName>,
    /// To lock then.
    pub requests: BTreeSet<ExternalId>,
    /// Owners whose sessions to lock last.
    pub owners: BTreeSet<Owner>,
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
        }
        footprint
    }

    /// Adds the semaphores that live requests in `loaded` hold; whether any was missing.
    pub fn grow(&mut self, loaded: &Loaded) -> bool {
        let before = self.semaphores.len();
        for request in loaded.requests.values().filter(|request| request.is_live()) {
            self.semaphores.extend(
                request
                    .permits
                    .iter()
                    .map(|permit| permit.semaphore.clone()),
            );
        }
        self.semaphores.len() > before
    }
}
