//! P3 and P4: a request ends once, and its end is final.

use lockhouse_core::{Cause, EndReason, Refusal};

use crate::keeper::{
    Keeper, ask, causes_that_hold, end, every_cause, for_ms, forced, gone, heartbeat, owned_by,
    renew, request_ended,
};
use crate::words::{at, id};

/// P3.
#[test]
fn a_second_release_says_so_and_gives_nothing_back() {
    let mut keeper = Keeper::with(&[("a", 2)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.grant(&ask("two", &[("a", 1)]));
    let (first, ended) = keeper.end("one", Cause::Released { by: None }).unwrap();
    assert!(ended);
    keeper.wait_ms(5);
    assert_eq!(
        keeper.end("one", Cause::Released { by: None }),
        Ok((first, false))
    );
    assert_eq!(keeper.in_use("a"), 1);
}

/// P3.
#[test]
fn the_first_reason_stands() {
    for cause in causes_that_hold() {
        let mut keeper = Keeper::with(&[("a", 1)]);
        keeper.run(heartbeat("x", 8)).unwrap();
        keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
        keeper.wait_ms(8);
        let first = cause.reason();
        keeper.end("one", cause).unwrap();
        for later in every_cause() {
            keeper.wait_ms(1);
            let (request, now) = keeper.end("one", later).unwrap();
            assert!(!now);
            assert_eq!(request.end_reason(), Some(first));
            assert_eq!(request.released_at(), Some(at(8)));
        }
        assert_eq!(keeper.in_use("a"), 0);
    }
}

/// P3.
#[test]
fn two_ends_in_a_batch_end_it_once() {
    let mut keeper = Keeper::with(&[("a", 3)]);
    keeper.grant(&owned_by("x", ask("one", &[("a", 2)])));
    keeper.grant(&ask("two", &[("a", 1)]));
    let batch = [
        end("one", gone("x")),
        end("one", Cause::Released { by: None }),
    ];
    let decision = keeper.batch(&batch);
    assert_eq!(decision.changes.ended.len(), 1);
    assert_eq!(keeper.in_use("a"), 1);
    let reason = keeper
        .request("one")
        .and_then(|request| request.end_reason());
    assert_eq!(reason, Some(EndReason::OwnerDead));
}

/// P4.
#[test]
fn an_ended_request_is_not_renewed() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    let (ended, _) = keeper.end("one", forced(None)).unwrap();
    let refused = request_ended("one", EndReason::Forced);
    assert_eq!(keeper.run(renew("one", Some(50))), Err(refused));
    assert_eq!(keeper.request("one"), Some(&ended));
}

/// P4.
#[test]
fn an_unknown_request_is_neither_renewed_nor_released() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    let unknown = Refusal::UnknownRequest(id("one"));
    assert_eq!(keeper.run(renew("one", Some(10))), Err(unknown.clone()));
    for cause in every_cause() {
        assert_eq!(keeper.end("one", cause), Err(unknown.clone()));
    }
    assert_eq!(keeper.request("one"), None);
}
