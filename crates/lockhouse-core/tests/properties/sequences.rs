//! Random batches of commands at random times, over so few names and ids that they often meet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockhouse_core::{
    Ask, Capacity, Cause, Command, Count, Definition, ExternalId, Idle, MAX_COUNT, Note, Owner,
    PlaceInLine, Priority, SemaphoreName, Template, Timestamp, Ttl, Turn,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::words::{at, capacity, count, id, name, owner, ttl};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Names that templates match. Two templates match one of them.
const KEYS: [&str; 2] = ["k/x", "k/y"];
const PATTERNS: [&str; 2] = ["k/*", "k/x*"];
const IDS: u32 = 12;

/// One batch, and the time of the store's clock at its decision.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) now: Timestamp,
    /// All templates, if they change before the batch.
    pub(crate) templates: Option<Vec<Template>>,
    /// Requests that their holders finish before the batch, in their own transactions.
    pub(crate) finishes: Vec<ExternalId>,
    pub(crate) commands: Vec<Command>,
}

/// Up to 20 batches of 1 to 6 commands. Between batches the clock stands still, moves by less or more than the TTLs, or now
/// and then is set back.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    let finishes = prop_oneof![3 => Just(Vec::new()), 1 => vec(ids(), 1..=2)];
    steps(commands().boxed(), finishes.boxed(), templates().boxed())
}

/// The same with most asks in their turn, for semaphores that exist.
pub(crate) fn sequences_in_turn() -> impl Strategy<Value = Vec<Step>> {
    let in_turn = (asks(), turns()).prop_map(|(ask, turn)| Command::Acquire { ask, turn });
    let commands = prop_oneof![1 => commands(), 1 => in_turn].boxed();
    let none = Just(None).boxed();
    steps(commands, Just(Vec::new()).boxed(), none).prop_map(|mut steps| {
        let there = NAMES.map(|text| Definition::new(name(text), capacity(5)));
        let keys = KEYS.map(|text| Definition::new(name(text), capacity(2)));
        let there = there.into_iter().chain(keys);
        let commands = there.map(Command::Define).collect();
        steps.insert(
            0,
            Step {
                now: at(0),
                templates: None,
                finishes: Vec::new(),
                commands,
            },
        );
        steps
    })
}

fn steps(
    commands: BoxedStrategy<Command>,
    finishes: BoxedStrategy<Vec<ExternalId>>,
    templates: BoxedStrategy<Option<Vec<Template>>>,
) -> impl Strategy<Value = Vec<Step>> {
    let tick = prop_oneof![
        3 => Just(0),
        6 => 1_i64..12,
        1 => Just(1_000),
        1 => -12_i64..0,
    ];
    vec((tick, templates, finishes, vec(commands, 1..=6)), 1..=20).prop_map(|steps| {
        let mut ms = 0;
        let step = |(tick, templates, finishes, commands)| {
            ms += tick;
            Step {
                now: at(ms),
                templates,
                finishes,
                commands,
            }
        };
        steps.into_iter().map(step).collect()
    })
}

fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => defines(),
        2 => names().prop_map(|name| Command::Delete { name }),
        2 => names().prop_map(|name| Command::Follow { name }),
        1 => names().prop_map(Command::look),
        10 => asks().prop_map(Command::acquire),
        2 => (ids(), option::of(ttls()))
            .prop_map(|(external_id, ttl)| Command::Renew { external_id, ttl, by: None }),
        8 => ends(),
        4 => (owner_names(), (1_u64..15).prop_map(ttl), prop::bool::weighted(0.4))
            .prop_map(|(owner, ttl, must_exist)| Command::Heartbeat { owner, ttl, must_exist }),
        1 => owner_names().prop_map(|owner| Command::Goodbye { owner }),
    ]
}

/// Often both templates, one or none.
fn templates() -> impl Strategy<Value = Option<Vec<Template>>> {
    let one = |pattern: &'static str| {
        let idle = prop_oneof![Just(1_i64), Just(50)];
        let parts = (0_u32..=3, idle).prop_map(move |(number, idle_ms)| Template {
            pattern: pattern.parse().expect("a test's pattern is valid"),
            capacity: capacity(number),
            idle: Idle::from_ms(idle_ms).expect("a test's idle time is in bounds"),
            created_at: at(0),
            updated_at: at(0),
        });
        option::weighted(0.7, parts)
    };
    let all = PATTERNS.map(one);
    let all = all.prop_map(|all| all.into_iter().flatten().collect());
    option::weighted(0.3, all)
}

fn defines() -> impl Strategy<Value = Command> {
    let note = Note::parse("more room").expect("a short note");
    let notes = any::<bool>().prop_map(move |noted| noted.then(|| note.clone()));
    let expected = option::weighted(0.2, capacities());
    let slots = option::weighted(0.3, prop::bool::weighted(0.7));
    let parts = (
        names(),
        capacities(),
        [prop::bool::weighted(0.3), prop::bool::weighted(0.2)],
        expected,
        slots,
        owners(),
        notes,
    );
    parts.prop_map(
        |(name, capacity, conditions, expected, slots, changed_by, note)| {
            let [must_exist, if_missing] = conditions;
            Command::Define(Definition {
                name,
                capacity,
                must_exist,
                slots,
                if_missing,
                expected,
                changed_by,
                note,
            })
        },
    )
}

/// Every cause, mostly of the request's usual owner, or else of any. Ages are above and below the request's age.
fn ends() -> impl Strategy<Value = Command> {
    let whose = option::weighted(0.3, option::weighted(0.8, owner_names()));
    let ages = prop_oneof![4 => 0_u64..40, 1 => Just(1_000)].prop_map(Duration::from_millis);
    (0..IDS, whose, ages, owners(), 0..17).prop_map(|(number, other, age, by, which)| {
        let whose = other.unwrap_or_else(|| usual_owner(number));
        let owner = whose.clone().unwrap_or_else(|| self::owner("x"));
        let cause = match which {
            0..3 => Cause::Released { by },
            3..5 => Cause::Expired,
            5..8 => Cause::OwnerSilent { owner },
            8..10 => Cause::OwnerGone { owner },
            10..15 => Cause::Stale { age, owner: whose },
            _ => Cause::Forced { by },
        };
        let external_id = id_of(number);
        Command::End { external_id, cause }
    })
}

fn turns() -> impl Strategy<Value = Turn> {
    let places =
        (0..6_u64).prop_map(|number| PlaceInLine::new(Duration::ZERO, Priority::default(), number));
    let behind = prop_oneof![4 => Just(BTreeSet::new()), 1 => btree_set(names(), 1..=2)];
    (places, any::<bool>(), behind).prop_map(|(place, waits, behind)| Turn {
        place,
        waits,
        behind,
        ..Turn::default()
    })
}

fn capacities() -> impl Strategy<Value = Capacity> {
    prop_oneof![1 => Just(0), 6 => 1_u32..=6, 1 => Just(MAX_COUNT)].prop_map(capacity)
}

/// Mostly the usual ask of an id, so that asks repeat, or else any ask.
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

/// The usual ask of each id, on one to three semaphores.
fn usual_ask(number: u32) -> (BTreeMap<SemaphoreName, Count>, Option<Owner>) {
    let asks_for = 1 + number % 7;
    let plain = (0..)
        .zip(NAMES)
        .filter(|(bit, _)| asks_for & (1 << bit) != 0)
        .map(|(bit, text)| (name(text), count(1 + (number + bit) % 2)));
    // Every other id also wants a semaphore that a template makes.
    let key = KEYS.into_iter().nth(number as usize % 4);
    let permits = plain.chain(key.map(|text| (name(text), count(1))));
    (permits.collect(), usual_owner(number))
}

fn usual_owner(number: u32) -> Option<Owner> {
    match number % 3 {
        0 => None,
        1 => Some(owner("x")),
        _ => Some(owner("y")),
    }
}

fn names() -> impl Strategy<Value = SemaphoreName> {
    prop_oneof![3 => select(&NAMES), 2 => select(&KEYS)].prop_map(name)
}

fn ids() -> impl Strategy<Value = ExternalId> {
    (0..IDS).prop_map(id_of)
}

fn id_of(number: u32) -> ExternalId {
    id(&format!("job-{number}"))
}

fn owners() -> impl Strategy<Value = Option<Owner>> {
    option::of(owner_names())
}

fn owner_names() -> impl Strategy<Value = Owner> {
    select(&["x", "y"][..]).prop_map(owner)
}

fn ttls() -> impl Strategy<Value = Ttl> {
    (1_u64..40).prop_map(ttl)
}
