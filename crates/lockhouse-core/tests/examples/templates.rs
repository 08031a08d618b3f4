//! Templates, and the line of the semaphores that they create (P11).

use std::time::Duration;

use lockhouse_core::{
    Command, Decision, Epoch, Idle, Line, Loaded, Outcome, Pattern, PlaceInLine, Priority,
    ProcessId, Refusal, Reply, Saved, Seniority, Stand, Standing, Template, Timestamp, Turn,
    decide,
};

use crate::keeper::{Keeper, ask, define, exhausted, resize};
use crate::words::{capacity, count, name};

fn template(pattern: &str, of: u32, idle_ms: i64) -> Template {
    Template {
        pattern: Pattern::parse(pattern).expect("a pattern"),
        capacity: capacity(of),
        idle: Idle::from_ms(idle_ms).expect("an idle time"),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

fn keeper() -> Keeper {
    let mut keeper = Keeper::with(&[("all", 2)]);
    keeper.rows.templates = vec![template("k/*", 1, 5_000)];
    keeper
}

fn waits(number: u64, id: &str, permits: &[(&str, u32)]) -> Command {
    Command::Acquire {
        ask: ask(id, permits),
        turn: Turn {
            place: PlaceInLine::new(Duration::ZERO, Priority::default(), number),
            waits: true,
            ..Turn::default()
        },
    }
}

fn is_granted(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(Reply::Granted { now: true, .. }))
}

fn follow(keeper: &mut Keeper, semaphore: &str) -> Outcome {
    let name = name(semaphore);
    keeper.run(Command::Follow { name })
}

/// P5.
#[test]
fn a_semaphore_is_created_by_the_commit_that_grants() {
    let mut keeper = keeper();
    keeper.grant(&ask("held", &[("all", 2)]));
    let both = ask("x", &[("k/a", 1), ("all", 1)]);
    assert_eq!(keeper.acquire(&both), Err(exhausted(&["all"])));
    assert!(!keeper.rows.semaphores.contains_key(&name("k/a")));
    keeper
        .run(Command::release("held".parse().unwrap()))
        .unwrap();
    keeper.grant(&both);
    let made = &keeper.rows.semaphores[&name("k/a")];
    assert_eq!(
        (made.capacity, made.in_use, made.fence),
        (capacity(1), 1, 1)
    );
    assert!(made.is_keyed());
}

/// A look at a semaphore without a row shows it as its template would create it, and writes nothing.
#[test]
fn a_semaphore_that_is_yet_to_be_made_is_seen_as_it_would_be() {
    let mut keeper = keeper();
    let decision = keeper.batch(&[Command::look(name("k/a"))]);
    assert!(decision.changes.is_empty());
    let Ok(Reply::Seen { semaphore, .. }) = &decision.outcomes[0] else {
        panic!("{decision:?}")
    };
    assert_eq!(
        (semaphore.available(), &semaphore.line),
        (1, &Line::default())
    );
    let unknown = keeper.run(Command::look(name("else")));
    assert_eq!(unknown, Err(Refusal::UnknownSemaphore(vec![name("else")])));
}

/// P7.
#[test]
fn an_idle_semaphore_is_deleted_and_its_fences_go_on() {
    let mut keeper = keeper();
    for id in ["x", "y"] {
        keeper.grant(&ask(id, &[("k/a", 1)]));
        keeper.run(Command::release(id.parse().unwrap())).unwrap();
    }
    keeper.wait_ms(5_000);
    follow(&mut keeper, "k/a").unwrap();
    assert!(
        keeper.rows.semaphores[&name("k/a")].exists(),
        "it is kept for a second longer"
    );
    keeper.wait_ms(1_000);
    follow(&mut keeper, "k/a").unwrap();
    assert!(!keeper.rows.semaphores[&name("k/a")].exists());
    let back = keeper.grant(&ask("z", &[("k/a", 1)]));
    assert_eq!(back.permits[0].fence, 3);
    keeper.wait_ms(60_000);
    follow(&mut keeper, "k/a").unwrap();
    assert!(keeper.rows.semaphores[&name("k/a")].exists(), "it is held");
}

/// The template would create such a semaphore again with its own capacity, and open one that an operator had closed.
#[test]
fn an_idle_semaphore_that_an_operator_closed_is_kept() {
    let mut keeper = keeper();
    keeper.grant(&ask("x", &[("k/a", 1)]));
    keeper.run(Command::release("x".parse().unwrap())).unwrap();
    keeper.run(resize("k/a", 0)).unwrap();
    keeper.wait_ms(60_000);
    follow(&mut keeper, "k/a").unwrap();
    let closed = &keeper.rows.semaphores[&name("k/a")];
    assert!(closed.exists());
    assert_eq!(closed.capacity.value(), 0);
}

/// P7: the same in a batch that reads the templates from the start, for an upkeep command in it.
#[test]
fn a_semaphore_begins_with_the_stores_epoch_beside_one_that_follows_its_template() {
    let mut keeper = keeper();
    keeper.grant(&ask("x", &[("k/a", 1)]));
    let epoch = Epoch::new(3).expect("an epoch");
    let name_of_the_epoch = Epoch::semaphore();
    keeper.batch(&[Command::RaiseFence {
        name: name_of_the_epoch,
        epoch,
    }]);
    let decision = keeper.batch(&[
        Command::Follow { name: name("k/a") },
        Command::acquire(ask("y", &[("k/new", 1)])),
    ]);
    let Ok(Reply::Granted { request, .. }) = &decision.outcomes[1] else {
        panic!("{decision:?}")
    };
    assert_eq!(request.permits[0].fence, epoch.fence() + 1);
}

/// Writes the entry of a process with one waiter in the line of `k/a`. Nobody holds that afterwards.
fn unused_with_a_waiter() -> (Keeper, Command) {
    let mut keeper = keeper();
    keeper.grant(&ask("x", &[("k/a", 1)]));
    keeper.wait_ms(1);
    let standing = Standing {
        seniority: Seniority::default(),
        count: count(1),
        waiting: 1,
    };
    let stand = Stand {
        process: ProcessId::new(1),
        standing: Some(standing),
        saved: Saved::Always,
    };
    let name = name("k/a");
    let stand = Command::Stand { name, stand };
    let release = Command::release("x".parse().expect("an id"));
    keeper.batch(std::slice::from_ref(&stand));
    keeper.batch(&[release]);
    (keeper, stand)
}

/// The line's clock does not follow the store's clock after a pause of more than 30 s, as that clock may have been set ahead.
/// Only the upkeep looks at an unused semaphore, every few minutes.
#[test]
fn the_entry_of_a_process_that_died_keeps_no_semaphore() {
    let (mut keeper, _) = unused_with_a_waiter();
    keeper.wait_ms(20_000);
    follow(&mut keeper, "k/a").unwrap();
    assert!(
        keeper.rows.semaphores[&name("k/a")].exists(),
        "the process may live"
    );
    for _ in 0..2 {
        keeper.wait_ms(300_000);
        follow(&mut keeper, "k/a").unwrap();
    }
    assert!(!keeper.rows.semaphores[&name("k/a")].exists());
}

/// P11: after a step of the clock, the process has 20 s to write its entry again.
#[test]
fn the_entry_of_a_process_that_lives_keeps_a_semaphore_when_the_clock_is_set_ahead() {
    let (mut keeper, stand) = unused_with_a_waiter();
    for _ in 0..3 {
        keeper.wait_ms(7 * 3_600_000);
        follow(&mut keeper, "k/a").unwrap();
        keeper.wait_ms(20_000);
        keeper.run(stand.clone()).unwrap();
        follow(&mut keeper, "k/a").unwrap();
        let kept = &keeper.rows.semaphores[&name("k/a")];
        assert!(kept.exists() && !kept.line.is_empty(), "{kept:?}");
    }
}

#[test]
fn a_semaphore_follows_its_template_until_it_is_resized_by_hand() {
    let mut keeper = keeper();
    keeper.grant(&ask("x", &[("k/a", 1)]));
    keeper.rows.templates = vec![template("k/*", 3, 5_000)];
    let followed = follow(&mut keeper, "k/a").unwrap();
    assert!(matches!(
        followed,
        Reply::Followed {
            is_resized: true,
            ..
        }
    ));
    assert_eq!(keeper.rows.semaphores[&name("k/a")].capacity, capacity(3));
    assert_eq!(keeper.rows.capacity_changes.len(), 1);
    keeper.run(define("k/a", 7)).unwrap();
    let followed = follow(&mut keeper, "k/a").unwrap();
    assert!(matches!(
        followed,
        Reply::Followed {
            is_resized: false,
            ..
        }
    ));
    assert_eq!(keeper.rows.semaphores[&name("k/a")].capacity, capacity(7));
}

/// A batch in which `noisy` waiters lack `k/a`, and then a caller asks for another key.
fn beside_a_saturated_key(decide: fn(Loaded, &[Command]) -> Decision) -> Vec<Outcome> {
    let mut keeper = keeper();
    keeper.grant(&ask("held", &[("k/a", 1), ("all", 1)]));
    let batch = [
        waits(1, "a1", &[("k/a", 1), ("all", 1)]),
        waits(2, "a2", &[("k/a", 1), ("all", 1)]),
        waits(3, "b", &[("k/b", 1), ("all", 1)]),
    ];
    let loaded = keeper.load_batch(&batch);
    decide(loaded, &batch).outcomes
}

/// P11.
#[test]
fn a_saturated_key_holds_up_nobody_on_other_semaphores() {
    let outcomes = beside_a_saturated_key(decide);
    assert_eq!(outcomes[0], Err(exhausted(&["k/a"])));
    assert!(is_granted(&outcomes[2]), "{outcomes:?}");
}

/// Broken on purpose: the key is taken for an ordinary semaphore.
#[test]
fn a_waiter_that_reserves_without_its_key_is_caught() {
    let outcomes = beside_a_saturated_key(|mut loaded, commands| {
        for semaphore in loaded.semaphores.values_mut() {
            semaphore.origin = None;
        }
        decide(loaded, commands)
    });
    assert!(!is_granted(&outcomes[2]), "the line of `all` is held up");
}

/// P11: waiters for one key are served in their order, and a waiter that lacks no key reserves its other semaphores.
fn behind_in_one_key(decide: fn(Loaded, &[Command]) -> Decision) -> Vec<Outcome> {
    let mut keeper = Keeper::with(&[("all", 1)]);
    keeper.rows.templates = vec![template("k/*", 2, 5_000)];
    keeper.grant(&ask("made", &[("k/a", 1)]));
    let batch = [
        waits(1, "a1", &[("k/a", 2), ("all", 1)]),
        waits(2, "a2", &[("k/a", 1)]),
        waits(3, "b", &[("all", 1)]),
    ];
    let loaded = keeper.load_batch(&batch);
    decide(loaded, &batch).outcomes
}

#[test]
fn waiters_for_one_key_keep_their_order() {
    let outcomes = behind_in_one_key(decide);
    assert_eq!(outcomes[1], Err(Refusal::OthersFirst(vec![name("k/a")])));
    assert!(is_granted(&outcomes[2]), "{outcomes:?}");
}

/// Broken on purpose: a waiter that lacks a key does not even reserve that key.
#[test]
fn a_waiter_that_does_not_reserve_its_key_is_caught() {
    let outcomes = behind_in_one_key(|loaded, commands| {
        let mut commands = commands.to_vec();
        for command in &mut commands {
            if let Command::Acquire { turn, .. } = command {
                turn.waits = false;
            }
        }
        decide(loaded, &commands)
    });
    assert!(is_granted(&outcomes[1]), "it overtakes");
}

/// Broken on purpose: the row of a deleted semaphore is forgotten, with its fence.
#[test]
fn a_semaphore_that_comes_back_without_its_fence_is_caught() {
    let mut keeper = keeper();
    keeper.grant(&ask("x", &[("k/a", 1)]));
    keeper.run(Command::release("x".parse().unwrap())).unwrap();
    keeper.run(Command::Delete { name: name("k/a") }).unwrap();
    let again = [Command::acquire(ask("y", &[("k/a", 1)]))];
    let fence = |loaded: Loaded| match &decide(loaded, &again).outcomes[0] {
        Ok(Reply::Granted { request, .. }) => request.permits[0].fence,
        other => panic!("{other:?}"),
    };
    let loaded = keeper.load_batch(&again);
    assert_eq!(fence(loaded.clone()), 2);
    let mut forgetful = loaded;
    forgetful.semaphores.remove(&name("k/a"));
    assert_eq!(fence(forgetful), 1, "a fence that was handed out before");
}
