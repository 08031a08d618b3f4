//! Properties of `decide`, on random sequences of batches.
//!
//! Each sequence is compared with a model that reads a log from its beginning for every question, and with the promises P1 to
//! P8 as the rows show them. Then `decide` is broken on purpose, and each break must be caught. `PROPTEST_CASES` is the
//! number of sequences to try.

mod broken;
mod causes;
mod check;
mod commit;
mod kinds;
mod line;
mod log;
mod model;
mod mutants;
mod origins;
mod promises;
mod rows;
mod saved;
mod semaphores;
mod sequences;
mod slots;
mod turns;
mod words;

use std::collections::BTreeSet;

use lockhouse_core::{Changes, ExternalId, Outcome, Reply, decide};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use check::{check, run_in_batches_of};
use kinds::{EVERY_KIND, kind_of};
use rows::Rows;
use sequences::{Step, sequences};

proptest! {
    /// P1 to P8. Every answer and every list of changes is the model's. So changes are sorted, no unchanged row is written, and
    /// a request that a batch granted and ended is one insert. The promises hold on the rows after each commit.
    #[test]
    fn decide_keeps_its_promises_and_answers_as_the_model(steps in sequences()) {
        if let Err(broken) = check(decide, &steps) {
            let broken: Vec<_> = broken.iter().map(|b| format!("{}: {}", b.rule, b.what)).collect();
            return Err(TestCaseError::fail(broken.join("\n")));
        }
    }

    /// How commands are grouped into batches changes no answer and no row.
    #[test]
    fn grouping_changes_nothing(steps in sequences(), size in 2_usize..=5) {
        let (mut whole, mut split, mut single) = (Rows::default(), Rows::default(), Rows::default());
        for Step { now, templates, finishes, commands } in steps {
            for rows in [&mut whole, &mut split, &mut single] {
                rows.set_templates(&templates);
            }
            for id in &finishes {
                for rows in [&mut whole, &mut split, &mut single] {
                    rows.finish(now, id);
                }
            }
            let expected = run_in_batches_of(1, &mut single, now, &commands);
            let by_size = run_in_batches_of(size, &mut split, now, &commands);
            let at_once = run_in_batches_of(commands.len(), &mut whole, now, &commands);
            prop_assert_eq!(&by_size, &expected);
            prop_assert_eq!(&at_once, &expected);
            prop_assert_eq!(&split, &single);
            prop_assert_eq!(&whole, &single);
        }
    }

    /// A batch in which every command is refused saves only the ends of requests that were over.
    #[test]
    fn refused_commands_leave_no_trace(steps in sequences()) {
        let mut rows = Rows::default();
        for Step { now, templates, finishes, commands } in steps {
            rows.set_templates(&templates);
            finishes.iter().for_each(|id| rows.finish(now, id));
            for command in commands {
                let batch = [command];
                let loaded = rows.load(now, &batch);
                let due = loaded.requests.values().any(|request| request.lapse(now).is_some());
                let decision = decide(loaded, &batch);
                if decision.outcomes[0].is_err() && !due {
                    prop_assert_eq!(&decision.changes, &Changes::default(), "{:?}", batch);
                }
                prop_assert!(rows.save(&decision.changes).is_ok());
            }
        }
    }

    /// P5: the same batch again, at the same time, is answered, and grants nothing more.
    #[test]
    fn asking_again_grants_nothing_more(steps in sequences()) {
        let mut rows = Rows::default();
        for Step { now, templates, finishes, commands } in steps {
            rows.set_templates(&templates);
            finishes.iter().for_each(|id| rows.finish(now, id));
            let first = run_in_batches_of(commands.len(), &mut rows, now, &commands);
            let granted: Vec<_> = first.iter().filter_map(granted_now).collect();
            let again = decide(rows.load(now, &commands), &commands);
            let again = again.outcomes.iter().filter_map(granted_now);
            let twice: Vec<_> = again.filter(|id| granted.contains(id)).collect();
            prop_assert!(twice.is_empty(), "{twice:?}");
        }
    }
}

fn granted_now(outcome: &Outcome) -> Option<&ExternalId> {
    match outcome {
        Ok(Reply::Granted {
            request, now: true, ..
        }) => Some(&request.external_id),
        _ => None,
    }
}

/// The sequences are useful: every kind of answer comes up in them.
#[test]
fn sequences_reach_every_answer() {
    let mut seen = BTreeSet::new();
    for steps in some_sequences(1_000) {
        let mut rows = Rows::default();
        for Step {
            now,
            templates,
            finishes,
            commands,
        } in steps
        {
            rows.set_templates(&templates);
            finishes.iter().for_each(|id| rows.finish(now, id));
            let outcomes = run_in_batches_of(commands.len(), &mut rows, now, &commands);
            seen.extend(commands.iter().zip(&outcomes).map(|(c, o)| kind_of(c, o)));
        }
    }
    assert_eq!(seen, BTreeSet::from(EVERY_KIND));
}

/// The same `number` sequences every time.
fn some_sequences(number: usize) -> impl Iterator<Item = Vec<Step>> {
    let mut runner = TestRunner::deterministic();
    (0..number).map(move |_| {
        let tree = sequences().new_tree(&mut runner);
        tree.expect("nothing is filtered out").current()
    })
}
