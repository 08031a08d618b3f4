//! Asks with a wait that meet a locked semaphore stand in line if a plain read finds no room for
//! them.
//!
//! A transaction that ends in a refusal locks the semaphore's row too. Where many processes want
//! one semaphore, the asks of those far behind would keep the row locked for the process whose turn
//! it is. So only asks that may be granted wait for the lock.

use std::collections::BTreeMap;

use lockhouse_core::{Ask, ExternalId, SemaphoreName, SemaphoreRow};

/// The semaphores that some asks lack, and the rows by which they do.
#[derive(Debug, Default)]
pub(in crate::engine) struct Lacking {
    pub(in crate::engine) semaphores: Vec<SemaphoreRow>,
    pub(in crate::engine) by_id: BTreeMap<ExternalId, Vec<SemaphoreName>>,
}

/// The semaphores that have too few free permits for `ask`, if all of its semaphores exist and are
/// large enough.
pub(in crate::engine) fn lacks(ask: &Ask, semaphores: &[SemaphoreRow]) -> Vec<SemaphoreName> {
    let mut lacks = Vec::new();
    for (name, count) in ask.permits() {
        let found = semaphores.iter().find(|semaphore| semaphore.name == *name);
        match found {
            Some(found) if found.available() >= count.value() => {}
            Some(found) if found.capacity.value() >= count.value() => lacks.push(name.clone()),
            _ => return Vec::new(),
        }
    }
    lacks
}
