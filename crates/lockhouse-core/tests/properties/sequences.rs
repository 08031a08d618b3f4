//! Random batches of commands at random times, over so few names and ids that they often meet.

use std::collections::BTreeMap;

use lockhouse_core::{
    Ask, Command, Count, EndReason, ExternalId, MAX_COUNT, Note, Owner, SemaphoreName, Timestamp,
    Ttl,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::words::{at, capacity, count, id, name, owner, ttl};

const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: u32 = 14;

/// One batch, and what the store's clock shows when it is decided.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) now: Timestamp,
    pub(crate) commands: Vec<Command>,
}

/// Up to 20 batches of 1 to 6 commands. The clock stands still, goes on by less or by more than
/// the times to live, and now and then is set back.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    let tick = prop_oneof![
        3 => Just(0),
        6 => 1_i64..12,
        1 => Just(1_000),
        1 => -12_i64..0,
    ];
    vec((tick, vec(commands(), 1..=6)), 1..=20).prop_map(|steps| {
        let mut ms = 0;
        let step = |(tick, commands)| {
            ms += tick;
            Step {
                now: at(ms),
                commands,
            }
        };
        steps.into_iter().map(step).collect()
    })
}

fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => defines(),
        1 => names().prop_map(|name| Command::Delete { name }),
        8 => asks().prop_map(Command::Acquire),
        2 => (ids(), option::of(ttls()))
            .prop_map(|(external_id, ttl)| Command::Renew { external_id, ttl }),
        4 => (ids(), select(EndReason::ALL.to_vec()))
            .prop_map(|(external_id, reason)| Command::End { external_id, reason }),
    ]
}

fn defines() -> impl Strategy<Value = Command> {
    let capacities =
        prop_oneof![1 => Just(0), 6 => 1_u32..=6, 1 => Just(MAX_COUNT)].prop_map(capacity);
    let note = Note::parse("more room").expect("a short note");
    (names(), capacities, any::<bool>(), owners(), any::<bool>()).prop_map(
        move |(name, capacity, must_exist, changed_by, noted)| Command::Define {
            name,
            capacity,
            must_exist,
            changed_by,
            note: noted.then(|| note.clone()),
        },
    )
}

/// Mostly the usual ask of an id, so that it is asked again and again; else any.
fn asks() -> impl Strategy<Value = Ask> {
    let counts = prop_oneof![12 => 1_u32..=3, 1 => Just(MAX_COUNT)].prop_map(count);
    let any_permits = btree_map(names(), counts, 1..=3);
    let any_ask = (any_permits, owners());
    let ask = prop_oneof![4 => Just(None), 1 => any_ask.prop_map(Some)];
    (0..IDS, ask, option::of(ttls())).prop_map(|(number, ask, ttl)| {
        let (permits, owner) = ask.unwrap_or_else(|| usual_ask(number));
        let mut ask = Ask::new(id_of(number), permits).expect("1 to 3 names");
        ask.owner = owner;
        ask.ttl = ttl;
        ask
    })
}

/// Each id's own, on one to three semaphores.
fn usual_ask(number: u32) -> (BTreeMap<SemaphoreName, Count>, Option<Owner>) {
    let asks_for = 1 + number % 7;
    let permits = (0..)
        .zip(NAMES)
        .filter(|(bit, _)| asks_for & (1 << bit) != 0)
        .map(|(bit, text)| (name(text), count(1 + (number + bit) % 2)));
    let owner = (!number.is_multiple_of(3)).then(|| owner("x"));
    (permits.collect(), owner)
}

fn names() -> impl Strategy<Value = SemaphoreName> {
    select(&NAMES).prop_map(name)
}

fn ids() -> impl Strategy<Value = ExternalId> {
    (0..IDS).prop_map(id_of)
}

fn id_of(number: u32) -> ExternalId {
    id(&format!("job-{number}"))
}

fn owners() -> impl Strategy<Value = Option<Owner>> {
    option::of(select(&["x", "y"][..]).prop_map(owner))
}

fn ttls() -> impl Strategy<Value = Ttl> {
    (1_u64..40).prop_map(ttl)
}
