//! Damage to a row's line can spoil only the order.

use lockhouse_core::{Command, Line, ProcessId, Saved, Stand, Turn, decide};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::commit::Commit;
use crate::promises;
use crate::rows::Rows;
use crate::sequences::{Step, sequences, sequences_in_turn};

/// The damage to the lines before a batch.
#[derive(Clone, Debug)]
struct Mess {
    texts: Vec<String>,
    process: u64,
    waits: bool,
    waited_ms: u64,
    saved: Saved,
}

proptest! {
    /// P1 to P8.
    #[test]
    fn an_arbitrary_line_breaks_nothing_but_the_order(
        steps in prop_oneof![sequences().boxed(), sequences_in_turn().boxed()],
        messes in vec(messes(), 21),
    ) {
        let mut rows = Rows::default();
        for (step, mess) in steps.iter().zip(&messes) {
            let broken = commit(&mut rows, step, mess);
            prop_assert!(broken.is_empty(), "{broken:#?}");
        }
    }

    /// Every line that was read can be written and read again, and stays the same.
    #[test]
    fn an_arbitrary_line_is_read_as_it_is_written(text in texts()) {
        let line = Line::stored(&text);
        prop_assert_eq!(Line::stored(&line.to_string()), line);
    }
}

fn commit(rows: &mut Rows, step: &Step, mess: &Mess) -> Vec<String> {
    rows.set_templates(&step.templates);
    step.finishes
        .iter()
        .for_each(|id| rows.finish(step.now, id));
    let texts = mess.texts.iter().cycle();
    for (row, text) in rows.semaphores.values_mut().zip(texts) {
        row.line = Line::stored(text);
    }
    let commands = commands(step, mess);
    let before = rows.clone();
    let decision = decide(before.load(step.now, &commands), &commands);
    if let Err(id) = rows.save(&decision.changes) {
        return vec![format!("P5: {id} was there and was granted again")];
    }
    let commit = Commit {
        now: step.now,
        before: &before,
        commands: &commands,
        outcomes: &decision.outcomes,
        after: rows,
    };
    let broken = promises::broken_by(&commit).into_iter();
    broken
        .map(|broken| format!("{}: {}", broken.rule, broken.what))
        .collect()
}

/// The commands of a step at some process, which writes its entry in the line of every semaphore that they name.
fn commands(step: &Step, mess: &Mess) -> Vec<Command> {
    let process = ProcessId::new(mess.process);
    let mut commands = step.commands.clone();
    for command in &mut commands {
        if let Command::Acquire { turn, .. } = command {
            *turn = Turn {
                waits: mess.waits,
                process,
                waited: std::time::Duration::from_millis(mess.waited_ms),
                ..turn.clone()
            };
        }
    }
    let stand = Stand {
        process,
        standing: None,
        saved: mess.saved,
    };
    let asks = step.commands.iter().filter_map(Command::ask);
    let names = asks.flat_map(|ask| ask.permits().map(|(name, _)| name.clone()));
    let says: Vec<_> = names.map(|name| Command::Stand { name, stand }).collect();
    commands.extend(says);
    commands
}

fn messes() -> impl Strategy<Value = Mess> {
    let waited = prop_oneof![Just(0), 0_u64..2_000, Just(u64::MAX)];
    let saved = prop_oneof![
        Just(Saved::Along),
        Just(Saved::Always),
        Just(Saved::Excused)
    ];
    let parts = (vec(texts(), 1..=3), 0..4_u64, any::<bool>(), waited, saved);
    parts.prop_map(|(texts, process, waits, waited_ms, saved)| Mess {
        texts,
        process,
        waits,
        waited_ms,
        saved,
    })
}

/// Texts that are well formed with any numbers, nearly well formed, or neither.
fn texts() -> impl Strategy<Value = String> {
    let entries = vec((times(), 0..5_u64, times(), numbers(), numbers()), 0..6);
    let idle = prop_oneof![
        Just("-".to_owned()),
        times().prop_map(|time| time.to_string())
    ];
    let formed = (times(), times(), idle, entries).prop_map(|(latest, skew, idle, entries)| {
        let mut text = format!("{latest} {skew} {idle}");
        for (place, process, heard, count, waiting) in entries {
            text += &format!(";{place} {process:x} {heard} {count} {waiting}");
        }
        text
    });
    prop_oneof![
        8 => formed,
        1 => "[0-9a-f;. -]{0,60}",
        1 => ".{0,40}",
    ]
}

/// Times near the time of a test, or anywhere.
fn times() -> impl Strategy<Value = i64> {
    const NOW_US: i64 = 1_700_000_000_000_000;
    prop_oneof![
        4 => NOW_US - 100_000_000..NOW_US + 100_000_000,
        2 => -100_000_000..100_000_000_i64,
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)],
    ]
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4_u32, 1 => any::<u32>()]
}
