//! P3 and P10: owners that send heartbeats, fall silent, say goodbye or are gone.

use lockhouse_core::{Command, EndReason, OwnerSession, Refusal, Reply};

use crate::keeper::{
    Keeper, ask, beat_on, define, end, exhausted, for_ms, gone, goodbye, heartbeat, owned_by,
    silent, stale, stale_of,
};
use crate::words::{at, owner, ttl};

/// `x` and `y` hold one permit of `a` each, as `one` and `two`. `x` has a session of 10 ms.
fn keeper() -> Keeper {
    let mut keeper = Keeper::with(&[("a", 2)]);
    keeper
        .run(heartbeat("x", 10))
        .expect("a heartbeat is always heard");
    keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
    keeper.grant(&owned_by("y", ask("two", &[("a", 1)])));
    keeper
}

fn reason(keeper: &Keeper, id: &str) -> Option<EndReason> {
    keeper.request(id).and_then(|request| request.end_reason())
}

/// P8: the session counts from the store's now.
#[test]
fn a_heartbeat_counts_from_the_store_s_now_and_from_nothing_before() {
    let mut keeper = Keeper::with(&[]);
    for (ms, until_ms, began) in [(30, 35, true), (7, 17, false)] {
        keeper.wait_ms(5);
        let session = OwnerSession {
            owner: owner("x"),
            ttl: ttl(ms),
            expires_at: at(until_ms),
        };
        let heard = Reply::Heard { session, began };
        assert_eq!(keeper.run(heartbeat("x", ms)), Ok(heard));
    }
}

/// P10: an owner that was silent too long, or that left, learns at its next heartbeat that its session ended.
#[test]
fn a_heartbeat_says_whether_a_session_went_on_until_then() {
    let mut keeper = Keeper::with(&[]);
    let began = |keeper: &mut Keeper| match keeper.run(heartbeat("x", 10)) {
        Ok(Reply::Heard { began, .. }) => began,
        other => panic!("a heartbeat was answered {other:?}"),
    };
    assert!(began(&mut keeper));
    keeper.wait_ms(9);
    assert!(!began(&mut keeper));
    keeper.wait_ms(10);
    assert!(began(&mut keeper), "it had lapsed");
    keeper.run(goodbye("x")).unwrap();
    assert!(began(&mut keeper), "it had left");
}

/// P9, P10: an owner whose answer was lost gets the same answer to a repeat.
#[test]
fn an_ended_session_is_not_renewed() {
    let mut keeper = Keeper::with(&[]);
    let refused = || Err(Refusal::SessionEnded(owner("x")));
    assert_eq!(keeper.run(beat_on("x", 10)), refused(), "there is none yet");
    keeper.run(heartbeat("x", 10)).unwrap();
    keeper.wait_ms(9);
    let heard = keeper.run(beat_on("x", 10));
    assert!(matches!(heard, Ok(Reply::Heard { began: false, .. })));
    keeper.wait_ms(10);
    for _ in 0..2 {
        assert_eq!(keeper.run(beat_on("x", 10)), refused(), "it has lapsed");
    }
    keeper.run(heartbeat("x", 10)).unwrap();
    keeper.run(goodbye("x")).unwrap();
    assert_eq!(keeper.run(beat_on("x", 10)), refused(), "it has left");
}

/// P10.
#[test]
fn a_silent_owner_s_request_ends_once_its_session_has_lapsed() {
    let mut keeper = keeper();
    keeper.wait_ms(9);
    let (early, now) = keeper.end("one", silent("x")).unwrap();
    assert!(!now && early.is_live());
    keeper.wait_ms(1);
    let (ended, now) = keeper.end("one", silent("x")).unwrap();
    assert!(now);
    assert_eq!(ended.end_reason(), Some(EndReason::OwnerDead));
    assert_eq!(ended.ended_by, None);
    assert_eq!(keeper.in_use("a"), 1);
}

/// P3: the sweep saw a lapsed session, and a heartbeat came before the sweep had the locks.
#[test]
fn a_heartbeat_before_the_sweep_keeps_what_the_owner_holds() {
    let mut keeper = keeper();
    keeper.wait_ms(10);
    keeper.run(heartbeat("x", 10)).unwrap();
    let (request, now) = keeper.end("one", silent("x")).unwrap();
    assert!(!now && request.is_live());

    keeper.wait_ms(10);
    let batch = [heartbeat("x", 10), end("one", silent("x"))];
    let outcomes = keeper.batch(&batch).outcomes;
    assert!(matches!(outcomes[1], Ok(Reply::Ended { now: false, .. })));
    assert!(keeper.is_live("one"));
}

/// P4: a heartbeat after the sweep does not bring back the ended request.
#[test]
fn a_heartbeat_after_the_sweep_brings_nothing_back() {
    let mut keeper = keeper();
    keeper.wait_ms(10);
    let batch = [end("one", silent("x")), heartbeat("x", 10)];
    let outcomes = keeper.batch(&batch).outcomes;
    assert!(matches!(outcomes[0], Ok(Reply::Ended { now: true, .. })));
    assert!(matches!(outcomes[1], Ok(Reply::Heard { began: true, .. })));
    assert_eq!(reason(&keeper, "one"), Some(EndReason::OwnerDead));
    assert_eq!(keeper.in_use("a"), 1);
}

/// P3: an owner that never sent a heartbeat has not fallen silent, nor has one that left.
#[test]
fn without_a_session_nobody_is_silent() {
    let mut keeper = keeper();
    keeper.wait_ms(1_000);
    assert!(!keeper.end("two", silent("y")).unwrap().1);
    keeper.run(goodbye("x")).unwrap();
    assert!(!keeper.end("one", silent("x")).unwrap().1);
    assert!(keeper.is_live("one") && keeper.is_live("two"));
}

/// P3: after the sweep saw the id, another owner's request got it.
#[test]
fn a_request_ends_with_its_own_owner_only() {
    let mut keeper = keeper();
    keeper.run(define("a", 3)).unwrap();
    keeper.grant(&ask("nobody's", &[("a", 1)]));
    keeper.wait_ms(10);
    for cause in [silent("x"), gone("x")] {
        for id in ["two", "nobody's"] {
            let (request, now) = keeper.end(id, cause.clone()).unwrap();
            assert!(!now && request.is_live());
        }
    }
    assert!(keeper.end("one", gone("x")).unwrap().1);
    assert_eq!(reason(&keeper, "one"), Some(EndReason::OwnerDead));
}

/// P3: an owner that is known to be gone is gone, whatever its session says.
#[test]
fn a_gone_owner_s_request_ends_though_its_session_lasts() {
    let mut keeper = keeper();
    assert!(keeper.end("one", gone("x")).unwrap().1);
    assert!(!keeper.end("one", gone("x")).unwrap().1);
    assert_eq!(keeper.in_use("a"), 1);
}

/// P10: the owner's silence would end the request. Its age does not while the session lasts.
#[test]
fn requests_of_a_session_are_never_stale() {
    let mut keeper = keeper();
    keeper.run(heartbeat("x", 2_000)).unwrap();
    keeper.wait_ms(1_000);
    for (id, whose, ended) in [("one", "x", false), ("two", "y", true)] {
        let (request, now) = keeper.end(id, stale_of(whose, 10)).unwrap();
        assert_eq!((now, request.is_live()), (ended, !ended), "{id}");
    }
    keeper.wait_ms(1_000);
    assert!(keeper.end("one", stale_of("x", 10)).unwrap().1);
}

/// P3: after the sweep saw the id, another owner's request got it, whose session was not loaded.
#[test]
fn a_request_is_stale_for_its_own_owner_only() {
    let mut keeper = keeper();
    keeper.wait_ms(1_000);
    for cause in [stale(10), stale_of("y", 10)] {
        let (request, now) = keeper.end("one", cause).unwrap();
        assert!(!now && request.is_live());
    }
}

/// P4: a heartbeat keeps no request beyond its own time to live.
#[test]
fn a_heartbeat_pushes_no_request_s_expiry() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&owned_by("x", for_ms(10, ask("one", &[("a", 1)]))));
    keeper.wait_ms(9);
    keeper.run(heartbeat("x", 100)).unwrap();
    keeper.wait_ms(1);
    let (ended, now) = keeper.end("one", silent("x")).unwrap();
    assert!(now);
    assert_eq!(ended.end_reason(), Some(EndReason::Expired));
}

/// P10: a lapsed session alone frees nothing. The command that finds it does.
#[test]
fn silence_makes_room_once_it_is_found() {
    let mut keeper = keeper();
    keeper.wait_ms(10);
    let next = ask("three", &[("a", 1)]);
    assert_eq!(keeper.acquire(&next), Err(exhausted(&["a"])));
    let batch = [end("one", silent("x")), Command::acquire(next)];
    assert!(keeper.batch(&batch).outcomes.iter().all(Result::is_ok));
    assert!(keeper.is_live("three"));
}

/// P10: a goodbye in the batch of the ends removes the session.
#[test]
fn an_owner_that_leaves_frees_what_it_holds() {
    let mut keeper = keeper();
    let batch = [end("one", gone("x")), goodbye("x")];
    let decision = keeper.batch(&batch);
    assert_eq!(decision.outcomes[1], Ok(Reply::Gone { now: true }));
    assert_eq!(decision.changes.goodbyes, [owner("x")]);
    assert_eq!(keeper.in_use("a"), 1);
    assert_eq!(keeper.run(goodbye("x")), Ok(Reply::Gone { now: false }));
}

/// P4, P8: a request that silence ended stays ended, and its owner learns it, even if the store's clock was ahead for a
/// moment and is set back.
#[test]
fn an_owner_learns_of_its_silence_though_the_clock_is_set_back() {
    let mut keeper = keeper();
    keeper.wait_ms(3_600_000);
    assert!(keeper.end("one", silent("x")).unwrap().1);
    keeper.wait_ms(-3_600_000 + 5);
    match keeper.run(heartbeat("x", 10)) {
        Ok(Reply::Heard { began, .. }) => assert!(began, "the owner never learns it"),
        other => panic!("{other:?}"),
    }
}
