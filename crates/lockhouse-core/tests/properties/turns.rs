//! P11: asks in their turn, against a line that takes one ask at a time.
//!
//! The line uses asks without turns. It decides each command alone, and keeps a list of all refused asks that wait. Before a
//! grant it checks that list.

use lockhouse_core::{
    Ask, Command, Decision, Loaded, Outcome, Refusal, Reply, SemaphoreName, Turn, decide,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::broken::Broken;
use crate::check::Decide;
use crate::commit::Commit;
use crate::promises;
use crate::rows::Rows;
use crate::sequences::{Step, sequences_in_turn};

const SEQUENCES: usize = 500;

proptest! {
    #[test]
    fn waiters_are_neither_overtaken_nor_held_back_without_need(steps in sequences_in_turn()) {
        if let Err(broken) = check(decide, &steps) {
            return Err(TestCaseError::fail(format!("{broken:#?}")));
        }
    }

    /// Without waiters, a turn changes nothing.
    #[test]
    fn a_turn_of_a_lone_waiter_changes_nothing(steps in sequences_in_turn()) {
        let mut rows = Rows::default();
        for Step { now, commands, .. } in steps {
            let plain: Vec<_> = commands.iter().map(without_turn).collect();
            let alone: Vec<_> = commands.iter().map(alone).collect();
            let decision = decide(rows.load(now, &plain), &plain);
            prop_assert_eq!(&decide(rows.load(now, &alone), &alone), &decision);
            prop_assert!(rows.save(&decision.changes).is_ok());
        }
    }
}

fn without_turn(command: &Command) -> Command {
    match command {
        Command::Acquire { ask, .. } => Command::acquire(ask.clone()),
        other => other.clone(),
    }
}

fn alone(command: &Command) -> Command {
    match command {
        Command::Acquire { ask, turn } => {
            let ask = ask.clone();
            let turn = Turn {
                place: turn.place,
                ..Turn::default()
            };
            Command::Acquire { ask, turn }
        }
        other => other.clone(),
    }
}

fn check(decide: Decide, steps: &[Step]) -> Result<(), Vec<Broken>> {
    let mut rows = Rows::default();
    for step in steps {
        let broken = commit(decide, &mut rows, step);
        if !broken.is_empty() {
            return Err(broken);
        }
    }
    Ok(())
}

fn commit(decide: Decide, rows: &mut Rows, step: &Step) -> Vec<Broken> {
    let Step { now, commands, .. } = step;
    let before = rows.clone();
    let mut one_by_one = before.clone();
    let decision = decide(rows.load(*now, commands), commands);
    let mut waiting = Vec::new();
    let expected: Vec<_> = commands
        .iter()
        .map(|command| in_line(&mut one_by_one, step, command, &mut waiting))
        .collect();
    let mut broken = overtaken(commands, &decision.outcomes);
    if decision.outcomes != expected {
        let what = format!("{:#?}\nexpected {expected:#?}", decision.outcomes);
        broken.push(Broken {
            rule: "answers",
            what,
        });
    }
    if let Err(id) = rows.save(&decision.changes) {
        let what = format!("{id} was there and was granted again");
        broken.push(Broken { rule: "P5", what });
        return broken;
    }
    broken.extend(promises::broken_by(&Commit {
        now: *now,
        before: &before,
        commands,
        outcomes: &decision.outcomes,
        after: rows,
    }));
    broken
}

/// The answer to one command of the line, and its rows.
fn in_line<'a>(
    rows: &mut Rows,
    step: &Step,
    command: &'a Command,
    waiting: &mut Vec<(&'a Ask, &'a Turn)>,
) -> Outcome {
    let plain = [without_turn(command)];
    let decision = decide(rows.load(step.now, &plain), &plain);
    let mut outcome = decision.outcomes[0].clone();
    if let Command::Acquire { ask, turn } = command {
        let others = others_ahead(ask, turn, waiting);
        if is_granted_now(&outcome) && !others.is_empty() {
            outcome = Err(Refusal::OthersFirst(others));
        }
        if turn.waits && lacks_room(&outcome) {
            waiting.push((ask, turn));
        }
    }
    if !matches!(outcome, Err(Refusal::OthersFirst(_))) {
        let saved = rows.save(&decision.changes);
        saved.expect("no id is granted twice");
    }
    outcome
}

fn others_ahead(ask: &Ask, turn: &Turn, waiting: &[(&Ask, &Turn)]) -> Vec<SemaphoreName> {
    let ahead = |name: &&SemaphoreName| {
        let mut others = waiting.iter();
        let waits_for_it = |other: &Ask| other.permits().any(|(wanted, _)| wanted == *name);
        turn.behind.contains(*name)
            || others.any(|(other, its)| its.place < turn.place && waits_for_it(other))
    };
    let names = ask.permits().map(|(name, _)| name);
    names.filter(ahead).cloned().collect()
}

/// P11, by the answers alone: no ask was granted permits that a waiter ahead of it was refused before.
fn overtaken(commands: &[Command], outcomes: &[Outcome]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (i, (command, outcome)) in commands.iter().zip(outcomes).enumerate() {
        let Command::Acquire { ask, turn } = command else {
            continue;
        };
        if !is_granted_now(outcome) {
            continue;
        }
        let before = commands[..i].iter().zip(outcomes);
        let passed = before.filter_map(|(command, outcome)| match command {
            Command::Acquire {
                ask: other,
                turn: its,
            } if its.waits && lacks_room(outcome) => {
                (its.place < turn.place && share(ask, other)).then_some(other)
            }
            _ => None,
        });
        let what = passed.map(|other| format!("{ask:?} overtook {other:?}"));
        broken.extend(what.map(|what| Broken { rule: "P11", what }));
        if ask.permits().any(|(name, _)| turn.behind.contains(name)) {
            let what = format!("{ask:?} did not mind {turn:?}");
            broken.push(Broken { rule: "P11", what });
        }
    }
    broken
}

fn share(one: &Ask, other: &Ask) -> bool {
    one.permits()
        .any(|(name, _)| other.permits().any(|(wanted, _)| wanted == name))
}

fn is_granted_now(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(Reply::Granted { now: true, .. }))
}

fn lacks_room(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Err(Refusal::Exhausted(_) | Refusal::OthersFirst(_))
    )
}

/// Breaks `decide` and expects some sequence to break `rule`.
fn assert_caught(rule: &str, wrong: Decide) {
    let mut runner = TestRunner::deterministic();
    let caught = (0..SEQUENCES).any(|_| {
        let tree = sequences_in_turn().new_tree(&mut runner);
        let steps = tree.expect("nothing is filtered out").current();
        let broken = check(wrong, &steps).err().unwrap_or_default();
        broken.iter().any(|broken| broken.rule == rule)
    });
    assert!(caught, "{rule} was broken, and nothing noticed");
}

/// Decides with every turn changed by `change`.
fn with_turns(loaded: Loaded, commands: &[Command], change: fn(&mut Turn)) -> Decision {
    let mut changed = commands.to_vec();
    for command in &mut changed {
        if let Command::Acquire { turn, .. } = command {
            change(turn);
        }
    }
    decide(loaded, &changed)
}

#[test]
fn overtaking_in_a_batch_is_caught() {
    assert_caught("P11", |loaded, commands| {
        with_turns(loaded, commands, |turn| turn.waits = false)
    });
}

#[test]
fn overtaking_those_outside_the_batch_is_caught() {
    assert_caught("P11", |loaded, commands| {
        with_turns(loaded, commands, |turn| turn.behind.clear())
    });
}

#[test]
fn taking_everyone_for_the_first_is_caught() {
    assert_caught("P11", |loaded, commands| {
        with_turns(loaded, commands, |turn| {
            turn.place = lockhouse_core::PlaceInLine::default();
        })
    });
}

#[test]
fn being_held_back_by_a_caller_that_does_not_wait_is_caught() {
    assert_caught("answers", |loaded, commands| {
        with_turns(loaded, commands, |turn| turn.waits = true)
    });
}

/// A repeat of an earlier grant overtakes nobody.
#[test]
fn holding_back_a_repeated_ask_is_caught() {
    assert_caught("answers", |loaded, commands| {
        let mut decision = decide(loaded, commands);
        for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
            if let Command::Acquire { ask, turn } = command
                && let Ok(Reply::Granted { now: false, .. }) = outcome
                && !turn.behind.is_empty()
            {
                let names = ask.permits().map(|(name, _)| name.clone());
                *outcome = Err(Refusal::OthersFirst(names.collect()));
            }
        }
        decision
    });
}

/// No release can free the permits that such an ask lacks.
#[test]
fn being_held_back_by_an_ask_that_exceeds_the_capacity_is_caught() {
    assert_caught("answers", |loaded, commands| {
        held_back_by(loaded, commands, |refusal| {
            matches!(refusal, Refusal::ExceedsCapacity { .. })
        })
    });
}

/// P11.
#[test]
fn being_held_back_by_a_waiter_on_a_closed_semaphore_is_caught() {
    assert_caught("answers", |loaded, commands| {
        held_back_by(loaded, commands, |refusal| {
            matches!(refusal, Refusal::Closed(_))
        })
    });
}

fn held_back_by(loaded: Loaded, commands: &[Command], is_it: fn(&Refusal) -> bool) -> Decision {
    let mut blocked: Vec<(&Ask, &Turn)> = Vec::new();
    let mut decision = decide(loaded, commands);
    for (command, outcome) in commands.iter().zip(&mut decision.outcomes) {
        let Command::Acquire { ask, turn } = command else {
            continue;
        };
        let others = others_ahead(ask, turn, &blocked);
        if is_granted_now(outcome) && !others.is_empty() {
            *outcome = Err(Refusal::OthersFirst(others));
        }
        if turn.waits && outcome.as_ref().is_err_and(is_it) {
            blocked.push((ask, turn));
        }
    }
    decision
}

/// The sequences have waiters that are held back although there is room, and waiters that are first and are granted it.
#[test]
fn sequences_hold_back_and_let_pass() {
    let mut runner = TestRunner::deterministic();
    let (mut held_back, mut by_its_batch, mut passed) = (0, 0, 0);
    for _ in 0..SEQUENCES {
        let tree = sequences_in_turn().new_tree(&mut runner);
        let mut rows = Rows::default();
        for Step { now, commands, .. } in tree.expect("nothing is filtered out").current() {
            let decision = decide(rows.load(now, &commands), &commands);
            for (command, outcome) in commands.iter().zip(&decision.outcomes) {
                passed += usize::from(is_granted_now(outcome));
                let (Command::Acquire { turn, .. }, Err(Refusal::OthersFirst(_))) =
                    (command, outcome)
                else {
                    continue;
                };
                held_back += 1;
                by_its_batch += usize::from(turn.behind.is_empty());
            }
            rows.save(&decision.changes).expect("no id twice");
        }
    }
    let all = [held_back, by_its_batch, passed];
    assert!(all.iter().all(|number| *number >= 30), "{all:?}");
}
