//! The rows that must be locked and loaded for a command, and how the footprint grows.

use lockhouse_core::{Cause, Command, Epoch, Footprint, Loaded};

use crate::keeper::{
    Keeper, ask, define, delete, end, every_cause, for_ms, gone, goodbye, heartbeat, owned_by,
    renew, resize, silent, stale, stale_of,
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
    let acquire = Command::acquire(owned_by("x", ask("one", &[("a", 1)])));
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
fn a_footprint_has_each_name_once_in_byte_order() {
    let acquire = Command::acquire(ask("one", &[("b", 1), ("a", 1)]));
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

/// P2: an end changes the semaphores of the request, so they must be locked too. After the end they need not be.
#[test]
fn it_grows_by_what_a_live_request_holds_that_is_ended() {
    let mut keeper = Keeper::with(&[("a", 1), ("b", 1)]);
    keeper.grant(&owned_by("x", ask("one", &[("a", 1), ("b", 1)])));
    let command = end("one", silent("x"));
    let loaded = keeper.load(&command);
    let without_semaphores = Loaded {
        semaphores: Default::default(),
        ..loaded.clone()
    };
    let mut footprint = of(command.clone());
    assert!(grow(&mut footprint, &command, &without_semaphores));
    assert!(footprint.semaphores.iter().eq(&["a", "b"].map(name)));
    assert!(!grow(&mut footprint, &command, &loaded));
    assert!(footprint.owners.into_iter().eq([owner("x")]));

    keeper.end("one", Cause::Released { by: None }).unwrap();
    let loaded = keeper.load(&command);
    assert!(!grow(&mut of(command.clone()), &command, &loaded));
    assert!(loaded.semaphores.is_empty());
}

/// A renewal in time frees nothing. A late renewal frees permits (P4), and so does an ask that finds its old grant expired.
#[test]
fn a_renewal_needs_a_semaphore_only_if_it_comes_too_late() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let asked = for_ms(10, ask("one", &[("a", 1)]));
    keeper.grant(&asked);
    let renewal = renew("one", None);
    let loaded = keeper.load(&renewal);
    assert!(loaded.semaphores.is_empty() && loaded.requests.len() == 1);
    assert!(of(renewal.clone()).semaphores.is_empty());

    keeper.wait_ms(10);
    let loaded = keeper.load(&renewal);
    assert!(loaded.semaphores.contains_key(&name("a")));
}

#[test]
fn it_does_not_grow_by_what_is_not_there() {
    let command = end("one", silent("x"));
    let loaded = Rows::default().load(at(0), std::slice::from_ref(&command));
    assert!(!grow(&mut of(command.clone()), &command, &loaded));
}

fn grow(footprint: &mut Footprint, command: &Command, loaded: &Loaded) -> bool {
    footprint.grow(std::slice::from_ref(command), loaded)
}

/// P7: only a command that creates a semaphore reads the epoch's row, so that row delays no other command.
#[test]
fn it_grows_by_the_epoch_where_a_semaphore_is_created() {
    let mut keeper = Keeper::with(&[("there", 1), ("was", 1)]);
    keeper.run(delete("was")).unwrap();
    let mut grows = |command: Command| {
        let first = keeper.load(&command);
        let mut footprint = of(command.clone());
        let grew = footprint.grow(std::slice::from_ref(&command), &first);
        assert!(!footprint.clone().grow(&[command], &first), "once");
        grew && footprint.epoch && !footprint.semaphores.contains(&Epoch::semaphore())
    };
    assert!(grows(define("new", 1)) && grows(define("was", 1)));
    assert!(!grows(define("there", 2)) && !grows(resize("was", 1)));
}
