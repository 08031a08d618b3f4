//! Breaks of the line of all processes, each of which some sequence must show.

use std::time::Duration;

use lockhouse_core::{
    Command, Decision, Line, Loaded, Priority, ProcessId, Saved, Stand, Turn, decide,
};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::check;
use super::steps::{Step, steps};
use crate::check::Decide;

const SEQUENCES: usize = 1_000;

fn some_sequences() -> impl Iterator<Item = Vec<Step>> {
    let mut runner = TestRunner::deterministic();
    (0..SEQUENCES).map(move |_| {
        let tree = steps().new_tree(&mut runner);
        tree.expect("nothing is filtered out").current()
    })
}

/// Breaks `decide`, and expects some sequence to break P11.
fn assert_caught(wrong: Decide) {
    let is_caught = |steps: Vec<Step>| {
        let broken = check(wrong, &steps).err().unwrap_or_default();
        broken.iter().any(|broken| broken.rule == "P11")
    };
    assert!(some_sequences().any(is_caught), "nothing noticed");
}

/// The sequences are useful: every kind of decision comes up.
#[test]
fn sequences_reach_every_case() {
    let (mut granted, mut others_first, mut within) = (0, 0, 0);
    for steps in some_sequences() {
        let seen = check(decide, &steps).expect("nothing is broken");
        granted += seen.granted;
        others_first += seen.others_first;
        within += seen.within_the_window;
    }
    let all = [granted, others_first, within];
    assert!(all.iter().all(|number| *number >= 100), "{all:?}");
}

fn with_turns(loaded: Loaded, commands: &[Command], change: fn(&mut Turn)) -> Decision {
    let mut changed = commands.to_vec();
    for command in &mut changed {
        if let Command::Acquire { turn, .. } = command {
            change(turn);
        }
    }
    decide(loaded, &changed)
}

fn with_stands(loaded: Loaded, commands: &[Command], change: fn(&str, &mut Stand)) -> Decision {
    let mut changed = commands.to_vec();
    for command in &mut changed {
        if let Command::Stand { name, stand } = command {
            change(name.as_str(), stand);
        }
    }
    decide(loaded, &changed)
}

fn with_lines(mut loaded: Loaded, commands: &[Command], change: fn(&mut Line)) -> Decision {
    let rows = loaded.semaphores.values_mut();
    rows.for_each(|row| change(&mut row.line));
    decide(loaded, commands)
}

/// The line, with another text for the time since which permits are left to the first.
fn left_since(line: &mut Line, since: &str) {
    let text = line.to_string();
    let mut words: Vec<_> = text.splitn(2, ';').collect();
    let head = words[0].to_owned();
    if let (Some((clock, _)), [_, entries]) = (head.rsplit_once(' '), &mut words[..]) {
        *line = Line::stored(&format!("{clock} {since};{entries}"));
    }
}

#[test]
fn a_process_that_is_never_entered_is_caught() {
    assert_caught(|loaded, commands| {
        with_stands(loaded, commands, |_, stand| {
            stand.process = ProcessId::NOBODY
        })
    });
}

#[test]
fn a_window_without_bound_is_caught() {
    assert_caught(|loaded, commands| {
        with_turns(loaded, commands, |turn| {
            if turn.waits {
                turn.waited += Duration::from_secs(3_600);
            }
        })
    });
}

#[test]
fn a_missing_window_is_caught() {
    assert_caught(|loaded, commands| with_turns(loaded, commands, |turn| turn.waits = false));
}

#[test]
fn a_window_for_callers_that_do_not_wait_is_caught() {
    assert_caught(|loaded, commands| {
        with_turns(loaded, commands, |turn| {
            if !turn.waits {
                turn.waited = Duration::from_millis(250);
            }
        })
    });
}

#[test]
fn passing_nobody_over_is_caught() {
    assert_caught(|loaded, commands| with_lines(loaded, commands, |line| left_since(line, "-")));
}

#[test]
fn passing_all_over_is_caught() {
    assert_caught(|loaded, commands| with_lines(loaded, commands, |line| *line = Line::default()));
}

#[test]
fn passing_over_at_once_is_caught() {
    assert_caught(|loaded, commands| with_lines(loaded, commands, |line| left_since(line, "0")));
}

#[test]
fn an_excuse_that_is_not_heard_is_caught() {
    assert_caught(|loaded, commands| {
        with_stands(loaded, commands, |_, stand| {
            stand.saved = stand.saved.min(Saved::Always);
        })
    });
}

#[test]
fn priority_that_counts_at_one_process_only_is_caught() {
    assert_caught(|loaded, commands| {
        let mut changed = commands.to_vec();
        for command in &mut changed {
            if let Command::Acquire { ask, .. } = command {
                ask.priority = Priority::default();
            }
        }
        decide(loaded, &changed)
    });
}

/// P11: no process knows which semaphores are a template's.
#[test]
fn a_waiter_that_reserves_without_its_key_is_caught() {
    assert_caught(|mut loaded, commands| {
        let rows = loaded.semaphores.values_mut();
        rows.for_each(|row| row.origin = None);
        decide(loaded, commands)
    });
}

/// P11: a waiter does not stand in the line of the key that it lacks.
#[test]
fn a_waiter_that_loses_its_place_at_its_key_is_caught() {
    assert_caught(|loaded, commands| {
        with_stands(loaded, commands, |name, stand| {
            if name.starts_with("k/") {
                stand.process = ProcessId::NOBODY;
            }
        })
    });
}
