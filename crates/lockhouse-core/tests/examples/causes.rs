//! P3: a cause is checked again under the locks. P8: how long a grant still lasts.

use std::time::Duration;

use lockhouse_core::{Ask, Cause, Command, EndReason, Refusal, Reply};

use crate::keeper::{
    Keeper, ask, every_cause, for_ms, forced, gone, owned_by, renew, silent, stale, stale_of,
};
use crate::words::owner;

/// P3.
#[test]
fn stale_is_what_was_held_for_so_long_and_no_less() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.wait_ms(3);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.wait_ms(9);
    let (early, now) = keeper.end("one", stale(10)).unwrap();
    assert!(!now && early.is_live());
    keeper.wait_ms(1);
    let (ended, now) = keeper.end("one", stale(10)).unwrap();
    assert!(now);
    assert_eq!(ended.end_reason(), Some(EndReason::Stale));
    assert_eq!(keeper.in_use("a"), 0);
}

/// P3: a request with a TTL is never stale, even if a renewal gave it its first TTL after the sweep saw it.
#[test]
fn a_request_with_a_ttl_is_not_stale() {
    let mut keeper = Keeper::with(&[("a", 2)]);
    keeper.grant(&for_ms(50, ask("one", &[("a", 1)])));
    keeper.grant(&ask("two", &[("a", 1)]));
    keeper.wait_ms(20);
    keeper.run(renew("two", Some(50))).unwrap();
    for id in ["one", "two"] {
        let (request, now) = keeper.end(id, stale(10)).unwrap();
        assert!(!now && request.is_live());
    }
}

/// P8: a clock that was set back makes no request old.
#[test]
fn a_request_from_the_future_is_not_stale() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.wait_ms(-5);
    assert!(!keeper.end("one", stale(0)).unwrap().1);
}

/// P3: a release names its caller, the holder or another.
#[test]
fn a_release_is_marked_with_its_caller() {
    for by in [Some("x"), Some("a stranger"), None] {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
        let released = Cause::Released { by: by.map(owner) };
        let (request, now) = keeper.end("one", released).unwrap();
        assert!(now);
        assert_eq!(request.end_reason(), Some(EndReason::Released));
        assert_eq!(request.ended_by, by.map(owner));
    }
}

/// P3.
#[test]
fn a_forced_end_is_marked_with_its_caller() {
    for by in [Some("op"), None] {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
        let (request, now) = keeper.end("one", forced(by)).unwrap();
        assert!(now);
        assert_eq!(request.end_reason(), Some(EndReason::Forced));
        assert_eq!(request.ended_by, by.map(owner));
        assert_eq!(keeper.request("one"), Some(&request));
    }
}

/// P3: a second operator does not take the place of the first.
#[test]
fn the_first_end_keeps_its_ended_by() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.end("one", forced(Some("op"))).unwrap();
    let (request, now) = keeper.end("one", forced(Some("other"))).unwrap();
    assert!(!now);
    assert_eq!(request.ended_by, Some(owner("op")));
}

/// P4: whichever cause finds the request first. Causes that look for due requests are told that they ended it. A holder
/// and an operator are told that it was over.
#[test]
fn an_expired_request_ends_as_expired_by_every_cause() {
    let causes = every_cause().into_iter().chain([
        silent("another"),
        gone("another"),
        stale_of("another", 1_000),
        forced(Some("op")),
    ]);
    for cause in causes {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.grant(&owned_by("x", for_ms(10, ask("one", &[("a", 1)]))));
        keeper.wait_ms(10);
        let looks = !matches!(cause, Cause::Released { .. } | Cause::Forced { .. });
        let (request, now) = keeper.end("one", cause.clone()).unwrap();
        assert_eq!(now, looks, "{cause:?}");
        assert_eq!(request.end_reason(), Some(EndReason::Expired), "{cause:?}");
        assert_eq!(request.ended_by, None, "{cause:?}");
        assert_eq!(keeper.in_use("a"), 0);
        assert!(!keeper.end("one", cause).unwrap().1, "it ends once");
    }
}

/// P3, P4: a request that its holder finished in its own transaction ends as released, whichever cause finds it first, also
/// after its expiry.
#[test]
fn a_finished_request_ends_as_released_by_every_cause() {
    let causes = every_cause().into_iter().chain([forced(Some("op"))]);
    for cause in causes {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.grant(&owned_by("x", for_ms(10, ask("one", &[("a", 1)]))));
        keeper.finish("one");
        keeper.wait_ms(20);
        let looks = !matches!(cause, Cause::Released { .. } | Cause::Forced { .. });
        let (request, now) = keeper.end("one", cause.clone()).unwrap();
        assert_eq!(now, looks, "{cause:?}");
        assert_eq!(request.end_reason(), Some(EndReason::Released), "{cause:?}");
        assert_eq!(request.ended_by, None, "{cause:?}");
        assert_eq!(keeper.in_use("a"), 0);
        assert!(!keeper.end("one", cause).unwrap().1, "it ends once");
    }
}

/// P4, P5: a finished request is not renewed or granted again, even if the store's clock was set back since.
#[test]
fn a_finished_request_is_neither_renewed_nor_granted_again() {
    let renews = renew("one", Some(50));
    let replays = Command::acquire(ask("one", &[("a", 1)]));
    for command in [renews, replays] {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.grant(&ask("one", &[("a", 1)]));
        keeper.finish("one");
        keeper.wait_ms(-5);
        let refused = keeper.run(command).unwrap_err();
        let reason = EndReason::Released;
        assert!(matches!(refused, Refusal::RequestEnded { reason: r, .. } if r == reason));
        assert_eq!(keeper.in_use("a"), 0);
        keeper.grant(&ask("two", &[("a", 1)]));
    }
}

fn lasts(keeper: &mut Keeper, ask: &Ask) -> Option<Duration> {
    match keeper.run(Command::acquire(ask.clone())) {
        Ok(Reply::Granted { lasts, .. }) => lasts,
        other => panic!("{ask:?} was answered {other:?}"),
    }
}

/// P8: the answer tells the remaining time by the store's clock, so the caller needs to know only how long ago it asked.
#[test]
fn a_grant_says_how_long_it_lasts_from_now() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let ask = for_ms(10, ask("one", &[("a", 1)]));
    assert_eq!(lasts(&mut keeper, &ask), Some(Duration::from_millis(10)));
    keeper.wait_ms(7);
    assert_eq!(lasts(&mut keeper, &ask), Some(Duration::from_millis(3)));
    keeper.run(renew("one", Some(20))).unwrap();
    assert_eq!(lasts(&mut keeper, &ask), Some(Duration::from_millis(20)));
}

/// P8: a TTL in a repeated ask changes nothing.
#[test]
fn a_grant_without_ttl_lasts_until_its_release() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let ask = ask("one", &[("a", 1)]);
    assert_eq!(lasts(&mut keeper, &ask), None);
    assert_eq!(lasts(&mut keeper, &for_ms(10, ask)), None);
}
