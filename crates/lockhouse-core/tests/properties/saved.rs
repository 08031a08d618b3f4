//! The changes to save: a row is written if and only if the log has an event of it.

use std::collections::BTreeSet;

use lockhouse_core::{
    CapacityChange, Cause, Changes, Ended, ExternalId, Freed, Note, Renewed, SemaphoreName,
};

use crate::log::{self, Entry, Event};
use crate::semaphores;

/// The changes to save for the events since `log` had `start` entries.
pub(crate) fn since(start: usize, log: &[Entry]) -> Changes {
    let mut touched = BTreeSet::new();
    let mut granted = BTreeSet::new();
    let mut renewed = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut owners = BTreeSet::new();
    let mut capacity_changes = Vec::new();
    for (i, entry) in log.iter().enumerate().skip(start) {
        match &entry.event {
            Event::Defined {
                name,
                capacity,
                changed_by,
                note,
                ..
            } => {
                touched.insert(name);
                let old = log::capacity(&log[..i], name).filter(|old| old != capacity);
                capacity_changes.extend(old.map(|old_capacity| CapacityChange {
                    semaphore: name.clone(),
                    old_capacity,
                    new_capacity: *capacity,
                    changed_by: changed_by.clone(),
                    note: note.clone(),
                    changed_at: entry.at,
                }));
            }
            Event::Followed {
                name,
                capacity,
                template,
            } => {
                touched.insert(name);
                let old = log::capacity(&log[..i], name);
                let note = Note::parse(format!("template {template}"));
                capacity_changes.extend(old.map(|old_capacity| CapacityChange {
                    semaphore: name.clone(),
                    old_capacity,
                    new_capacity: *capacity,
                    changed_by: None,
                    note: Some(note.expect("a test's pattern is short")),
                    changed_at: entry.at,
                }));
            }
            Event::Deleted(name) | Event::Made { name, .. } => _ = touched.insert(name),
            Event::Templates(_) => {}
            Event::Granted(ask) => {
                granted.insert(&ask.external_id);
                touched.extend(ask.permits().map(|(name, _)| name));
            }
            Event::Renewed(id, _) => _ = renewed.insert(id),
            // The holder has saved that.
            Event::Finished(_) => {}
            Event::Ended(id, cause) => {
                ended.insert(id);
                if let Cause::OwnerSilent { owner } = cause
                    && log::session(&log[..i], owner) != log::session(&log[..=i], owner)
                {
                    owners.insert(owner);
                }
                let ask = log::grant(log, id).expect("only what was granted ends");
                touched.extend(ask.permits().map(|(name, _)| name));
            }
            Event::Heard(owner, _) | Event::Left(owner) => _ = owners.insert(owner),
        }
    }
    let row = |name: &SemaphoreName| semaphores::row(log, name);
    let is_freed = |name: &&SemaphoreName| {
        // A template creates the semaphore with all permits free, and the grant takes some of them.
        let made = log[start..]
            .iter()
            .rev()
            .find_map(|entry| match &entry.event {
                Event::Made {
                    name: its,
                    capacity,
                    ..
                } if its == *name => Some(capacity.value()),
                _ => None,
            });
        let before = semaphores::row(&log[..start], name).map_or(0, |row| row.available());
        let before = made.unwrap_or(before);
        row(name).is_some_and(|row| row.available() > before || !row.exists())
    };
    let freed = touched.iter().copied().filter(is_freed);
    let (heard, left): (Vec<_>, Vec<_>) = owners
        .into_iter()
        .partition(|owner| log::session(log, owner).is_some());
    Changes {
        freed: freed.cloned().map(to_anybody).collect(),
        semaphores: touched.into_iter().filter_map(row).collect(),
        renewed: renewed
            .difference(&granted)
            .filter_map(|id| renewal(log, id))
            .collect(),
        ended: ended
            .difference(&granted)
            .filter_map(|id| end(log, id))
            .collect(),
        granted: granted
            .into_iter()
            .filter_map(|id| log::request(log, id))
            .collect(),
        capacity_changes,
        heartbeats: heard
            .into_iter()
            .filter_map(|owner| log::session(log, owner))
            .collect(),
        goodbyes: left.into_iter().cloned().collect(),
    }
}

fn to_anybody(semaphore: SemaphoreName) -> Freed {
    Freed {
        semaphore,
        left_to: None,
    }
}

fn renewal(log: &[Entry], id: &ExternalId) -> Option<Renewed> {
    let (ttl, expires_at) = log::expiry(log, id)?;
    Some(Renewed {
        external_id: id.clone(),
        ttl,
        expires_at,
    })
}

fn end(log: &[Entry], id: &ExternalId) -> Option<Ended> {
    let (cause, at) = log::end(log, id)?;
    Some(Ended {
        external_id: id.clone(),
        reason: log::reason(cause),
        at,
        by: log::ended_by(cause),
    })
}
