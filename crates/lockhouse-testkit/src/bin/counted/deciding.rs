//! Counts `decide` alone: its input is made before, and its result is dropped after.

use lockhouse_core::{
    Ask, Capacity, Command, Count, Decision, ExternalId, Loaded, SemaphoreName, SemaphoreRow,
    Slots, Timestamp, decide,
};

use crate::callgrind::counted_in_here;
use crate::work::{Slip, id};

/// Decides `rounds` times: a batch of `size` acquires, each on the same `wide` semaphores, and a batch of their releases.
pub(super) fn pairs(size: usize, wide: usize, rounds: usize, slip: Slip) -> usize {
    let names = (0..wide).map(|n| name(&format!("slots-{n}")));
    let semaphores = names.map(|name| of_capacity(name, 1_000_000));
    pairs_on(&semaphores.collect::<Vec<_>>(), size, rounds, slip)
}

/// Decides `rounds` times: an acquire of the last permit of a semaphore of capacity 64, with or without slots, and its
/// release.
pub(super) fn last_permits(rounds: usize, are_slotted: bool) -> usize {
    let held = 63;
    let semaphore = SemaphoreRow {
        in_use: held,
        slots: are_slotted.then(|| Slots::of(0..held).unwrap()),
        ..of_capacity(name("slots-0"), 64)
    };
    pairs_on(&[semaphore], 1, rounds, Slip::None)
}

fn pairs_on(semaphores: &[SemaphoreRow], size: usize, rounds: usize, slip: Slip) -> usize {
    let names: Vec<_> = semaphores.iter().map(|row| row.name.clone()).collect();
    let defined = defined(semaphores);
    let mut given = Vec::new();
    for round in 0..rounds {
        let ids: Vec<_> = (round * size..(round + 1) * size)
            .map(|n| ExternalId::parse(id(n)).unwrap())
            .collect();
        let acquires: Vec<_> = ids.iter().map(|id| acquire(id, &names)).collect();
        let releases = ids.into_iter().map(Command::release).collect();
        let granted = decide(defined.clone(), &acquires);
        given.push((defined.clone(), acquires));
        given.push((saved(granted), releases));
    }
    if slip == Slip::DecidesTwice {
        given.extend(given.clone());
    }
    let decisions: Vec<_> = counted_in_here(|| {
        let given = given.into_iter();
        given
            .map(|(loaded, commands)| decide(loaded, &commands))
            .collect()
    });
    let mut outcomes = decisions.iter().flat_map(|decision| &decision.outcomes);
    assert!(outcomes.all(Result::is_ok), "something was refused");
    size * rounds
}

fn of_capacity(name: SemaphoreName, capacity: u32) -> SemaphoreRow {
    SemaphoreRow {
        capacity: Capacity::new(capacity).unwrap(),
        deleted_at: None,
        ..SemaphoreRow::undefined(name, Timestamp::UNIX_EPOCH)
    }
}

fn defined(semaphores: &[SemaphoreRow]) -> Loaded {
    let semaphores = semaphores.iter().cloned();
    Loaded {
        now: Timestamp::UNIX_EPOCH,
        semaphores: semaphores.map(|row| (row.name.clone(), row)).collect(),
        requests: Default::default(),
        owners: Default::default(),
        templates: Vec::new(),
    }
}

/// The rows that are loaded once `decision` is saved.
fn saved(decision: Decision) -> Loaded {
    let changes = decision.changes;
    let semaphores = changes.semaphores.into_iter();
    let requests = changes.granted.into_iter();
    Loaded {
        now: Timestamp::UNIX_EPOCH,
        semaphores: semaphores.map(|row| (row.name.clone(), row)).collect(),
        requests: requests.map(|row| (row.external_id.clone(), row)).collect(),
        owners: Default::default(),
        templates: Vec::new(),
    }
}

fn acquire(id: &ExternalId, names: &[SemaphoreName]) -> Command {
    let permits = names.iter().map(|name| (name.clone(), Count::ONE));
    Command::acquire(Ask::new(id.clone(), permits).unwrap())
}

fn name(text: &str) -> SemaphoreName {
    SemaphoreName::parse(text).unwrap()
}
