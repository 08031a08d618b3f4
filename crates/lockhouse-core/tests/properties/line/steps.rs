//! Random steps of three processes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::model::When;

pub(super) const PROCESSES: usize = 3;
pub(super) const HOUR_MS: i64 = 3_600_000;

/// The semaphores for which the processes ask, with their capacities.
pub(super) const PLAIN: [(&str, u32); 2] = [("a", 1), ("b", 2)];
pub(super) const KEYS: [(&str, u32); 2] = [("k/x", 1), ("k/y", 1)];
pub(super) const NAMES: [&str; 4] = [PLAIN[0].0, PLAIN[1].0, KEYS[0].0, KEYS[1].0];

/// A step of a process, and the time since the step before.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) after_ms: i64,
    pub(super) process: usize,
    pub(super) deed: Deed,
    /// When the entry of the process is saved.
    pub(super) when: When,
}

/// The action of a process. With every action the process asks once more for all its waiters.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Ask {
        wants: Vec<(&'static str, u32)>,
        priority: i32,
        waits: bool,
    },
    Look,
    /// Ends a request, by its index among all held ones.
    End(usize),
    /// A waiter gives up, by its index among those of the process.
    GiveUp(usize),
    Resize(&'static str, u32),
    /// Sets the clock by so many hours.
    SetClock(i64),
}

/// Up to 40 steps within half a minute. After a longer pause, a line assumes that the clock was set.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![
        4 => Just(0),
        4 => 1_i64..60,
        6 => 1_i64..300,
        2 => select(&[249, 250, 251, 699, 700, 701][..]),
        1 => select(&[1_199, 1_200, 1_201, 1_300][..]),
    ];
    let when =
        prop_oneof![2 => Just(When::Along), 6 => Just(When::Always), 1 => Just(When::Excused)];
    let step =
        (after, 0..PROCESSES, deeds(), when).prop_map(|(after_ms, process, deed, when)| Step {
            after_ms,
            process,
            deed,
            when,
        });
    vec(step, 1..=40).prop_map(|mut steps| {
        let mut left_ms = 29_000;
        for step in &mut steps {
            step.after_ms = step.after_ms.min(left_ms);
            left_ms -= step.after_ms;
        }
        steps
    })
}

fn deeds() -> impl Strategy<Value = Deed> {
    let priority = prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(-1)];
    let asks = (wants(), priority, prop::bool::weighted(0.8));
    prop_oneof![
        10 => asks.prop_map(|(wants, priority, waits)| Deed::Ask { wants, priority, waits }),
        8 => Just(Deed::Look),
        6 => (0..8_usize).prop_map(Deed::End),
        1 => (0..4_usize).prop_map(Deed::GiveUp),
        1 => (select(&["a", "b"][..]), 1..=2_u32)
            .prop_map(|(name, capacity)| Deed::Resize(name, capacity)),
        1 => select(&[-1_i64, 1, 20][..]).prop_map(Deed::SetClock),
    ]
}

/// Mostly one semaphore, or else several, and some of them keys.
fn wants() -> impl Strategy<Value = Vec<(&'static str, u32)>> {
    let names = prop_oneof![
        3 => select(&["a", "b"][..]).prop_map(|name| vec![name]),
        2 => subsequence(NAMES.to_vec(), 1..=3),
    ];
    let counts = vec(prop_oneof![4 => Just(1_u32), 1 => Just(2)], NAMES.len());
    (names, counts).prop_map(|(names, counts)| {
        let wants = names.into_iter().zip(counts);
        let one_key = |(name, count): (&'static str, u32)| match name.starts_with('k') {
            true => (name, 1),
            false => (name, count),
        };
        wants.map(one_key).collect()
    })
}
