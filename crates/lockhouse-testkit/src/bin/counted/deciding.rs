//! Counts `decide` alone: its input is made before, and its result is dropped after.

use lockhouse_core::{
    Ask, Capacity, Command, Count, Decision, ExternalId, Loaded, Semaphore, SemaphoreName,
    Timestamp, decide,
};

use crate::callgrind::counted_in_here;
use crate::{Slip, id};

/// `rounds` times: a batch of `size` acquires, each on the same `wide` semaphores, and a batch of
/// their releases.
pub(super) fn pairs(size: usize, wide: usize, rounds: usize, slip: Slip) -> usize {
    let names: Vec<_> = (0..wide).map(|n| name(&format!("slots-{n}"))).collect();
    let defined = defined(&names);
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

fn defined(names: &[SemaphoreName]) -> Loaded {
    let now = Timestamp::UNIX_EPOCH;
    let ready = |name: &SemaphoreName| {
        let semaphore = Semaphore {
            capacity: Capacity::new(1_000_000).unwrap(),
            deleted_at: None,
            ..Semaphore::made_ready(name.clone(), now)
        };
        (name.clone(), semaphore)
    };
    Loaded {
        now,
        semaphores: names.iter().map(ready).collect(),
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
