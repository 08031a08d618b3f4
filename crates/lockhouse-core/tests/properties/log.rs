//! A log of all events. Every question reads the log from its beginning. The log keeps no counts, so none can be wrong.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::{
    Ask, Capacity, Cause, EndReason, ExternalId, Grant, Note, Owner, OwnerSession, Pattern,
    Request, SemaphoreName, Slots, State, Template, Timestamp, Ttl,
};

/// An event, and its time.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Timestamp,
    pub(crate) event: Event,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A semaphore was created, or resized if it existed.
    Defined {
        name: SemaphoreName,
        capacity: Capacity,
        slotted: bool,
        /// The template as whose semaphore it was created.
        of_template: Option<Pattern>,
        changed_by: Option<Owner>,
        note: Option<Note>,
    },
    /// A template created a semaphore, for a grant.
    Made {
        name: SemaphoreName,
        capacity: Capacity,
        template: Pattern,
    },
    /// A semaphore was resized with its template.
    Followed {
        name: SemaphoreName,
        capacity: Capacity,
        template: Pattern,
    },
    /// All templates from now on.
    Templates(Vec<Template>),
    Deleted(SemaphoreName),
    Granted(Ask),
    Renewed(ExternalId, Ttl),
    /// A holder finished the request in its own transaction.
    Finished(ExternalId),
    Ended(ExternalId, Cause),
    Heard(Owner, Ttl),
    Left(Owner),
}

/// The capacity in force, if the semaphore exists.
pub(crate) fn capacity(log: &[Entry], semaphore: &SemaphoreName) -> Option<Capacity> {
    let mut in_force = None;
    for entry in log {
        match &entry.event {
            Event::Defined { name, capacity, .. }
            | Event::Made { name, capacity, .. }
            | Event::Followed { name, capacity, .. }
                if name == semaphore =>
            {
                in_force = Some(*capacity);
            }
            Event::Deleted(name) if name == semaphore => in_force = None,
            _ => {}
        }
    }
    in_force
}

/// The sum of the semaphore's live permits.
pub(crate) fn live_permits(log: &[Entry], semaphore: &SemaphoreName) -> u32 {
    grants(log)
        .filter(|ask| end(log, &ask.external_id).is_none())
        .map(|ask| held(ask, semaphore))
        .sum()
}

/// Whether the semaphore exists and has slots.
pub(crate) fn is_slotted(log: &[Entry], semaphore: &SemaphoreName) -> bool {
    let mut in_force = false;
    for entry in log {
        match &entry.event {
            Event::Defined { name, slotted, .. } if name == semaphore => in_force = *slotted,
            Event::Deleted(name) | Event::Made { name, .. } if name == semaphore => {
                in_force = false;
            }
            _ => {}
        }
    }
    in_force
}

/// The slots that each request was granted on the semaphore: the lowest slots that were free at that time.
pub(crate) fn slots_granted<'a>(
    log: &'a [Entry],
    semaphore: &SemaphoreName,
) -> BTreeMap<&'a ExternalId, BTreeSet<u32>> {
    let mut ever: BTreeMap<&ExternalId, BTreeSet<u32>> = BTreeMap::new();
    for (i, entry) in log.iter().enumerate() {
        let Event::Granted(ask) = &entry.event else {
            continue;
        };
        let many = held(ask, semaphore) as usize;
        if many == 0 || !is_slotted(&log[..i], semaphore) {
            continue;
        }
        let is_held = |slot: &u32| {
            let mut live = ever.iter().filter(|(id, _)| end(&log[..i], id).is_none());
            live.any(|(_, slots)| slots.contains(slot))
        };
        let lowest = (0..).filter(|slot| !is_held(slot)).take(many).collect();
        ever.insert(&ask.external_id, lowest);
    }
    ever
}

/// The last fence: the number of grants on the semaphore and of changes of its capacity.
pub(crate) fn fence(log: &[Entry], semaphore: &SemaphoreName) -> u64 {
    let takes_one = |(i, entry): &(usize, &Entry)| match &entry.event {
        Event::Granted(ask) => held(ask, semaphore) > 0,
        Event::Defined {
            name,
            capacity: new,
            ..
        } if name == semaphore => capacity(&log[..*i], name).is_some_and(|old| old != *new),
        Event::Followed { name, .. } => name == semaphore,
        _ => false,
    };
    log.iter().enumerate().filter(takes_one).map(|_| 1).sum()
}

/// The ask that was granted under `id`.
pub(crate) fn grant<'a>(log: &'a [Entry], id: &ExternalId) -> Option<&'a Ask> {
    grants(log).find(|ask| ask.external_id == *id)
}

/// How and when the request ended, if it has.
pub(crate) fn end<'a>(log: &'a [Entry], id: &ExternalId) -> Option<(&'a Cause, Timestamp)> {
    log.iter().find_map(|entry| match &entry.event {
        Event::Ended(ended, cause) if ended == id => Some((cause, entry.at)),
        _ => None,
    })
}

/// The reason of an end by `cause`.
pub(crate) fn reason(cause: &Cause) -> EndReason {
    match cause {
        Cause::Released { .. } => EndReason::Released,
        Cause::Expired => EndReason::Expired,
        Cause::OwnerSilent { .. } | Cause::OwnerGone { .. } => EndReason::OwnerDead,
        Cause::Stale { .. } => EndReason::Stale,
        Cause::Forced { .. } => EndReason::Forced,
    }
}

/// The caller that asked for the end, if it named itself.
pub(crate) fn ended_by(cause: &Cause) -> Option<Owner> {
    match cause {
        Cause::Released { by } | Cause::Forced { by } => by.clone(),
        _ => None,
    }
}

/// When the request was granted.
pub(crate) fn granted_at(log: &[Entry], id: &ExternalId) -> Option<Timestamp> {
    log.iter().find_map(|entry| match &entry.event {
        Event::Granted(ask) if ask.external_id == *id => Some(entry.at),
        _ => None,
    })
}

/// The owner's session, lapsed or not, unless the owner said goodbye or never sent a heartbeat. A session whose silence
/// ended a request never goes on.
pub(crate) fn session(log: &[Entry], owner: &Owner) -> Option<OwnerSession> {
    let last = log.iter().rposition(
        |entry| matches!(&entry.event, Event::Heard(who, _) | Event::Left(who) if who == owner),
    )?;
    let Event::Heard(_, ttl) = log[last].event else {
        return None;
    };
    let of_its_silence = |entry: &Entry| matches!(&entry.event, Event::Ended(_, Cause::OwnerSilent { owner: who }) if who == owner);
    let expires_at = match log[last..].iter().any(of_its_silence) {
        true => Timestamp::UNIX_EPOCH,
        false => later(log[last].at, ttl)?,
    };
    Some(OwnerSession {
        owner: owner.clone(),
        ttl,
        expires_at,
    })
}

/// When the holder finished the request.
pub(crate) fn finished_at(log: &[Entry], id: &ExternalId) -> Option<Timestamp> {
    log.iter().find_map(|entry| match &entry.event {
        Event::Finished(finished) if finished == id => Some(entry.at),
        _ => None,
    })
}

/// The last TTL of the request, and when it passes.
pub(crate) fn expiry(log: &[Entry], id: &ExternalId) -> Option<(Ttl, Timestamp)> {
    let mut given = log.iter().filter_map(|entry| match &entry.event {
        Event::Granted(ask) if ask.external_id == *id => Some((ask.ttl?, entry.at)),
        Event::Renewed(renewed, ttl) if renewed == id => Some((*ttl, entry.at)),
        _ => None,
    });
    let (ttl, at) = given.next_back()?;
    Some((ttl, later(at, ttl)?))
}

/// The request known by `id`, as a caller sees it.
pub(crate) fn request(log: &[Entry], id: &ExternalId) -> Option<Request> {
    let ask = grant(log, id)?;
    let granted = log
        .iter()
        .position(|entry| matches!(&entry.event, Event::Granted(ask) if ask.external_id == *id))?;
    let permits = ask.permits().map(|(name, count)| Grant {
        semaphore: name.clone(),
        count,
        fence: fence(&log[..=granted], name),
        slots: slots_granted(log, name).remove(id).map(slots),
    });
    Some(Request {
        external_id: id.clone(),
        owner: ask.owner.clone(),
        state: match end(log, id) {
            None => State::Acquired,
            Some((cause, at)) => State::Released {
                reason: reason(cause),
                at,
            },
        },
        permits: permits.collect(),
        ttl: expiry(log, id).map(|(ttl, _)| ttl),
        expires_at: finished_at(log, id).or(expiry(log, id).map(|(_, expires_at)| expires_at)),
        finished_at: finished_at(log, id),
        created_at: log[granted].at,
        ended_by: end(log, id).and_then(|(cause, _)| ended_by(cause)),
    })
}

fn grants(log: &[Entry]) -> impl Iterator<Item = &Ask> {
    log.iter().filter_map(|entry| match &entry.event {
        Event::Granted(ask) => Some(ask),
        _ => None,
    })
}

pub(crate) fn slots(slots: impl IntoIterator<Item = u32>) -> Slots {
    Slots::of(slots).expect("slots are few, and nobody holds another's")
}

fn later(at: Timestamp, ttl: Ttl) -> Option<Timestamp> {
    let ms = at.as_millisecond() + i64::try_from(ttl.as_ms()).ok()?;
    Timestamp::from_millisecond(ms).ok()
}

pub(crate) fn held(ask: &Ask, semaphore: &SemaphoreName) -> u32 {
    ask.permits()
        .filter(|(name, _)| *name == semaphore)
        .map(|(_, count)| count.value())
        .sum()
}
