//! P1 and P2: stores that grant more than the capacity, or whose counters drift.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lockhouse_core::{Capacity, Command, Decision, Loaded, SemaphoreRow, decide};

use super::sabotage::Sabotage;
use super::variant::{Variant, after};
use crate::history::Promise;

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "no locks between reading and writing",
        breaks: Promise::P1,
        sabotage: || Sabotage::new(false, decide),
    },
    Variant {
        name: "one more than the capacity",
        breaks: Promise::P1,
        sabotage: || Sabotage::new(true, |loaded, commands| roomier(loaded, commands, 1)),
    },
    Variant {
        name: "capacity read before the lock",
        breaks: Promise::P1,
        sabotage: capacity_read_before_the_lock,
    },
    Variant {
        name: "wake without re-check",
        breaks: Promise::P1,
        sabotage: wake_without_re_check,
    },
    Variant {
        name: "release that decrements twice",
        breaks: Promise::P2,
        sabotage: || after(|loaded, decision| give_back(loaded, decision, -1)),
    },
    Variant {
        name: "release that decrements nothing",
        breaks: Promise::P2,
        sabotage: || after(|loaded, decision| give_back(loaded, decision, 1)),
    },
];

/// Decides as if each semaphore had the capacity that `pretended` returns for it.
fn with_capacities(
    mut loaded: Loaded,
    commands: &[Command],
    mut pretended: impl FnMut(&SemaphoreRow) -> Capacity,
) -> Decision {
    let resizes = |c: &Command| matches!(c, Command::Define(_) | Command::Follow { .. });
    if commands.iter().any(resizes) {
        return decide(loaded, commands);
    }
    let mut truth = BTreeMap::new();
    for semaphore in loaded.semaphores.values_mut().filter(|s| s.exists()) {
        truth.insert(semaphore.name.clone(), semaphore.capacity);
        semaphore.capacity = pretended(semaphore);
    }
    let mut decision = decide(loaded, commands);
    for semaphore in &mut decision.changes.semaphores {
        if let Some(capacity) = truth.get(&semaphore.name) {
            semaphore.capacity = *capacity;
        }
    }
    decision
}

/// Decides as if each semaphore had `more` permits.
fn roomier(loaded: Loaded, commands: &[Command], more: i64) -> Decision {
    with_capacities(loaded, commands, |semaphore| {
        Capacity::new(i64::from(semaphore.capacity.value()) + more).unwrap()
    })
}

/// A grant uses the capacity that the semaphore first had.
fn capacity_read_before_the_lock() -> Arc<Sabotage> {
    let seen = Mutex::new(BTreeMap::new());
    Sabotage::new(true, move |loaded, commands| {
        let mut seen = seen.lock().unwrap();
        with_capacities(loaded, commands, |semaphore| {
            let first = *seen
                .entry(semaphore.name.clone())
                .or_insert(semaphore.capacity);
            if commands.iter().all(|command| command.ask().is_some()) {
                first
            } else {
                semaphore.capacity
            }
        })
    })
}

/// A waiter that was notified of room is granted it, even if another caller took it meanwhile.
fn wake_without_re_check() -> Arc<Sabotage> {
    let asked = Mutex::new(BTreeSet::new());
    Sabotage::new(true, move |loaded, commands| {
        let mut asked = asked.lock().unwrap();
        let mut woken = false;
        for command in commands {
            if let Command::Acquire { ask, .. } = command {
                woken |= !asked.insert(ask.external_id.clone());
            }
        }
        roomier(loaded, commands, if woken { 1_000 } else { 0 })
    })
}

/// Adds `times` times the permits of ended requests to the counters.
fn give_back(loaded: &Loaded, decision: &mut Decision, times: i64) {
    for ended in &decision.changes.ended {
        let Some(request) = loaded.requests.get(&ended.external_id) else {
            continue;
        };
        for permit in &request.permits {
            let rows = decision.changes.semaphores.iter_mut();
            for row in rows.filter(|row| row.name == permit.semaphore) {
                let off = i64::from(row.in_use) + times * i64::from(permit.count.value());
                row.in_use = off.max(0) as u32;
            }
        }
    }
}
