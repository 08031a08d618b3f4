//! What must be locked and loaded for a command, and how it grows.

use lockhouse_core::{Cause, Command, Footprint};

use crate::keeper::{
    Keeper, ask, define, delete, end, every_cause, gone, goodbye, heartbeat, owned_by, renew,
    silent, stale, stale_of,
};
use crate::rows::Rows;
use crate::words::{at, id, name, owner};

fn of(command: Command) -> Footprint {
    Footprint::of(&[command], [])
}

#[test]
fn a_session_is_loaded_for_what_reads_or_writes_it_and_for_nothing_else() {
    for command in [
        heartbeat("x", 1),
        goodbye("x"),
        end("one", silent("x")),
        end("one", stale_of("x", 1)),
    ] {
        assert!(of(command).owners.into_iter().eq([owner("x")]));
    }
    let others = every_cause()
        .into_iter()
        .filter(|cause| !matches!(cause, Cause::OwnerSilent { .. } | Cause::Stale { .. }));
    for cause in others.chain([stale(1)]) {
        assert!(of(end("one", cause)).owners.is_empty());
    }
    let acquire = Command::Acquire(owned_by("x", ask("one", &[("a", 1)])));
    for command in [acquire, renew("one", None), define("a", 1), delete("a")] {
        assert!(of(command).owners.is_empty());
    }
}

#[test]
fn a_heartbeat_touches_neither_semaphores_nor_requests() {
    for command in [heartbeat("x", 1), goodbye("x")] {
        let footprint = of(command);
        assert!(footprint.semaphores.is_empty() && footprint.requests.is_empty());
    }
}

#[test]
fn what_is_named_is_in_it_once_and_in_byte_order() {
    let acquire = Command::Acquire(ask("one", &[("b", 1), ("a", 1)]));
    let also = [name("c"), name("a")];
    let footprint = Footprint::of(&[acquire, define("B", 1), end("Z", gone("x"))], &also);
    assert!(
        footprint
            .semaphores
            .into_iter()
            .eq(["B", "a", "b", "c"].map(name))
    );
    assert!(footprint.requests.into_iter().eq(["Z", "one"].map(id)));
}

/// P2: a request gives back where it holds, so that must be locked too. Once it has ended, no more.
#[test]
fn it_grows_by_what_a_live_request_holds_and_once() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 1)]);
    keeper.grant(&owned_by("x", ask("one", &[("a", 1), ("b", 1)])));
    let command = end("one", silent("x"));
    let loaded = keeper.load(&command);
    let mut footprint = of(command.clone());
    assert!(footprint.grow(&loaded));
    assert!(footprint.semaphores.iter().eq(&["a", "b"].map(name)));
    assert!(!footprint.grow(&loaded));
    assert!(footprint.owners.into_iter().eq([owner("x")]));

    keeper.end("one", Cause::Released).unwrap();
    assert!(!of(command.clone()).grow(&keeper.load(&command)));
}

#[test]
fn it_does_not_grow_by_what_is_not_there() {
    let command = end("one", silent("x"));
    let loaded = Rows::default().load(at(0), std::slice::from_ref(&command));
    assert!(!of(command).grow(&loaded));
}
