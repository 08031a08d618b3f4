//! P5, P6 and P9: stores that grant twice, grant a part of an ask, or lose a grant.

use std::sync::Arc;

use lockhouse_core::{
    Ask, Capacity, Changes, Command, Count, Grant, Loaded, Refusal, Reply, Request, SemaphoreName,
    State, decide,
};

use super::sabotage::Sabotage;
use super::variant::{Variant, after, before, granted_now};
use crate::history::Promise;

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "forgets the id on retry",
        breaks: Promise::P5,
        sabotage: || before(|loaded, commands| forget(loaded, commands, Request::is_live)),
    },
    Variant {
        name: "forgets the id after the end",
        breaks: Promise::P5,
        sabotage: || before(|loaded, commands| forget(loaded, commands, |r| !r.is_live())),
    },
    Variant {
        name: "does not compare the asks",
        breaks: Promise::P5,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let alike = |command: &Command| as_before(&loaded, command);
                let commands: Vec<_> = commands.iter().map(alike).collect();
                decide(loaded, &commands)
            })
        },
    },
    Variant {
        name: "a refused ask leaves a request",
        breaks: Promise::P5,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let now = loaded.now;
                let known = loaded.requests.clone();
                let mut decision = decide(loaded, commands);
                for (command, outcome) in commands.iter().zip(&decision.outcomes) {
                    let ask = command.ask().filter(|_| outcome.is_err());
                    if let Some(ask) = ask.filter(|ask| !known.contains_key(&ask.external_id)) {
                        decision.changes.granted.push(trace(ask, now));
                    }
                }
                decision
            })
        },
    },
    Variant {
        name: "half of a multi-semaphore ask",
        breaks: Promise::P6,
        sabotage: || {
            after(|_, decision| {
                for request in &mut decision.changes.granted {
                    if request.permits.len() > 1 {
                        request.permits.pop();
                    }
                }
            })
        },
    },
    Variant {
        name: "one permit of each, whatever was asked",
        breaks: Promise::P6,
        sabotage: || {
            after(|_, decision| {
                let one = |permit: &mut Grant| permit.count = lockhouse_core::Count::ONE;
                granted_now(decision).for_each(|r| r.permits.iter_mut().for_each(one));
                let saved = decision.changes.granted.iter_mut();
                saved.for_each(|r| r.permits.iter_mut().for_each(one));
            })
        },
    },
    Variant {
        name: "answers, and does not save",
        breaks: Promise::P9,
        sabotage: || {
            after(|_, decision| {
                if !decision.changes.granted.is_empty() {
                    decision.changes = Changes::default();
                }
            })
        },
    },
    Variant {
        name: "a resize that is answered, and not saved",
        breaks: Promise::P9,
        sabotage: || {
            after(|loaded, decision| {
                for change in std::mem::take(&mut decision.changes.capacity_changes) {
                    let rows = decision.changes.semaphores.iter_mut();
                    for row in rows.filter(|row| row.name == change.semaphore) {
                        *row = loaded.semaphores[&row.name].clone();
                    }
                }
            })
        },
    },
    Variant {
        name: "a deletion that is answered, and not saved",
        breaks: Promise::P9,
        sabotage: || {
            after(|_, decision| {
                if decision.outcomes.contains(&Ok(Reply::Deleted)) {
                    decision.changes = Changes::default();
                }
            })
        },
    },
    Variant {
        name: "a semaphore without room is unknown",
        breaks: Promise::P9,
        sabotage: || without_room(|names| Refusal::UnknownSemaphore(names.to_vec())),
    },
    Variant {
        name: "a semaphore without room is too small",
        breaks: Promise::P9,
        sabotage: || without_room(too_small),
    },
    Variant {
        name: "a closed semaphore is too small",
        breaks: Promise::P9,
        sabotage: || {
            after(|_, decision| {
                for outcome in &mut decision.outcomes {
                    if let Err(Refusal::Closed(names)) = outcome {
                        *outcome = Err(too_small(names));
                    }
                }
            })
        },
    },
    Variant {
        name: "a renewal that is not saved",
        breaks: Promise::P9,
        sabotage: || after(|_, decision| decision.changes.renewed.clear()),
    },
];

fn forget(loaded: &mut Loaded, commands: &[Command], which: fn(&Request) -> bool) {
    for ask in commands.iter().filter_map(Command::ask) {
        if loaded.requests.get(&ask.external_id).is_some_and(which) {
            loaded.requests.remove(&ask.external_id);
        }
    }
}

/// The command with the ask that was granted under its id.
fn as_before(loaded: &Loaded, command: &Command) -> Command {
    let known = command
        .ask()
        .and_then(|ask| loaded.requests.get(&ask.external_id));
    let Some(request) = known else {
        return command.clone();
    };
    let permits = request.permits.iter();
    let permits = permits.map(|permit| (permit.semaphore.clone(), permit.count));
    let mut ask = Ask::new(request.external_id.clone(), permits).unwrap();
    ask.owner = request.owner.clone();
    Command::acquire(ask)
}

fn trace(ask: &Ask, now: lockhouse_core::Timestamp) -> Request {
    let permits = ask.permits().map(|(semaphore, count)| Grant {
        semaphore: semaphore.clone(),
        count,
        fence: 0,
        slots: None,
    });
    Request {
        external_id: ask.external_id.clone(),
        owner: ask.owner.clone(),
        state: State::Acquired,
        permits: permits.collect(),
        ttl: ask.ttl,
        expires_at: None,
        finished_at: None,
        created_at: now,
        ended_by: None,
    }
}

fn too_small(names: &[SemaphoreName]) -> Refusal {
    Refusal::ExceedsCapacity {
        semaphore: names[0].clone(),
        asked: Count::ONE,
        capacity: Capacity::CLOSED,
    }
}

/// An ask that finds no room gets another refusal.
fn without_room(told: fn(&[SemaphoreName]) -> Refusal) -> Arc<Sabotage> {
    after(move |_, decision| {
        for outcome in &mut decision.outcomes {
            if let Err(Refusal::Exhausted(names)) = outcome {
                *outcome = Err(told(names));
            }
        }
    })
}
