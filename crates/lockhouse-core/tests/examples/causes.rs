//! P3: a cause is looked at again; and what a grant still has left.

use std::time::Duration;

use lockhouse_core::{Ask, Cause, Command, EndReason, Reply};

use crate::keeper::{
    Keeper, ask, every_cause, for_ms, forced, gone, owned_by, renew, silent, stale, stale_of,
};
use crate::words::owner;

/// P3.
#[test]
fn a_request_is_stale_from_the_given_age_on() {
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

/// P3: what has a time to live is never stale, not even if it was first given by a renewal that
/// came after the request was seen.
#[test]
fn a_request_with_a_ttl_is_never_stale() {
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

/// P8: a clock that was set back makes nothing old.
#[test]
fn a_request_created_in_the_future_is_not_stale() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.wait_ms(-5);
    assert!(!keeper.end("one", stale(0)).unwrap().1);
}

/// P3: a release names who released, be it the holder or a stranger.
#[test]
fn a_release_records_its_caller_as_ended_by() {
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
fn a_forced_end_records_its_operator_as_ended_by() {
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

/// P3: nor does a second operator take the place of the first.
#[test]
fn a_second_release_does_not_change_ended_by() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.end("one", forced(Some("op"))).unwrap();
    let (request, now) = keeper.end("one", forced(Some("other"))).unwrap();
    assert!(!now);
    assert_eq!(request.ended_by, Some(owner("op")));
}

/// P4: whichever cause finds it first. Those that look for what is due are told that they ended
/// it; a holder and an operator that it was over.
#[test]
fn an_expired_request_ends_as_expired_for_every_cause() {
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

fn lasts(keeper: &mut Keeper, ask: &Ask) -> Option<Duration> {
    match keeper.run(Command::acquire(ask.clone())) {
        Ok(Reply::Granted { lasts, .. }) => lasts,
        other => panic!("{ask:?} was answered {other:?}"),
    }
}

/// P8: told by the store's clock, so that the caller needs only to know how long ago it asked.
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

/// P8: whatever the time to live of the ask that finds it granted.
#[test]
fn a_request_without_a_ttl_lasts_until_it_is_released() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let ask = ask("one", &[("a", 1)]);
    assert_eq!(lasts(&mut keeper, &ask), None);
    assert_eq!(lasts(&mut keeper, &for_ms(10, ask)), None);
}
