//! P4 and P8: time passes by the store's clock, and the first command that touches an expired request ends it.

use lockhouse_core::{Cause, EndReason, Refusal, Reply};

use crate::keeper::{Keeper, ask, define, exhausted, for_ms, owned_by, renew, request_ended};
use crate::words::{at, id, owner, ttl};

/// A store on which the only permit of `a` is held by a request whose TTL of 10 ms has passed.
fn overdue() -> Keeper {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    keeper.wait_ms(10);
    keeper
}

fn assert_expired(keeper: &Keeper) {
    let request = keeper.request("one").expect("it was granted");
    assert_eq!(request.end_reason(), Some(EndReason::Expired));
    assert_eq!(request.released_at(), Some(at(10)));
    assert_eq!(keeper.in_use("a"), 0);
}

/// P4.
#[test]
fn an_expired_request_is_not_renewed_swept_or_not() {
    let mut keeper = overdue();
    let refused = request_ended("one", EndReason::Expired);
    assert_eq!(keeper.run(renew("one", Some(50))), Err(refused));
    assert_expired(&keeper);
}

/// P4.
#[test]
fn releasing_an_expired_request_says_that_it_expired() {
    let mut keeper = overdue();
    let (request, now) = keeper.end("one", Cause::Released { by: None }).unwrap();
    assert!(!now);
    assert_eq!(request.end_reason(), Some(EndReason::Expired));
    assert_expired(&keeper);
}

/// P4 and P5.
#[test]
fn asking_again_for_an_expired_request_is_not_granted_again() {
    let mut keeper = overdue();
    let again = keeper.acquire(&for_ms(10, ask("one", &[("a", 1)])));
    assert_eq!(again, Err(request_ended("one", EndReason::Expired)));
    assert_expired(&keeper);
}

/// P5: another ask under the id is a conflict, and the expiry is saved all the same.
#[test]
fn a_conflict_with_an_expired_request_ends_it() {
    let mut keeper = overdue();
    let conflict = Refusal::IdempotencyConflict(id("one"));
    assert_eq!(keeper.acquire(&ask("one", &[("b", 1)])), Err(conflict));
    assert_expired(&keeper);
}

/// P3: a sweep that comes too early ends nothing. A sweep in time ends the request. A later one is told that it was over.
#[test]
fn a_sweep_ends_only_what_is_due() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    keeper.wait_ms(9);
    let (early, now) = keeper.end("one", Cause::Expired).unwrap();
    assert!(!now && early.is_live());
    keeper.wait_ms(1);
    assert!(keeper.end("one", Cause::Expired).unwrap().1);
    assert_expired(&keeper);
    assert!(!keeper.end("one", Cause::Expired).unwrap().1);
}

/// P3: a request without a TTL does not expire.
#[test]
fn a_sweep_leaves_what_has_no_ttl() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&ask("one", &[("a", 1)]));
    keeper.wait_ms(1_000_000_000);
    let (request, now) = keeper.end("one", Cause::Expired).unwrap();
    assert!(!now && request.is_live());
}

/// P2: an expired request counts until a command touches it, so that `in_use` agrees with the rows.
#[test]
fn an_expired_request_makes_room_once_it_is_swept() {
    let mut keeper = overdue();
    let next = ask("two", &[("a", 1)]);
    assert_eq!(keeper.acquire(&next), Err(exhausted(&["a"])));
    keeper.end("one", Cause::Expired).unwrap();
    keeper.grant(&next);
}

/// P8.
#[test]
fn a_renewal_counts_from_the_store_s_now() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.grant(&for_ms(10, ask("one", &[("a", 1)])));
    keeper.wait_ms(9);
    let Ok(Reply::Renewed(request)) = keeper.run(renew("one", Some(30))) else {
        panic!("it was live");
    };
    assert_eq!(
        (request.ttl, request.expires_at),
        (Some(ttl(30)), Some(at(39)))
    );
    assert_eq!(keeper.request("one"), Some(&request));
    keeper.wait_ms(20);
    let Ok(Reply::Renewed(request)) = keeper.run(renew("one", None)) else {
        panic!("it was live");
    };
    assert_eq!(
        (request.ttl, request.expires_at),
        (Some(ttl(30)), Some(at(59)))
    );
}

/// P8: times in rows are by the store's clock too.
#[test]
fn a_definition_is_dated_by_the_store() {
    let mut keeper = Keeper::with(&[("a", 1)]);
    keeper.wait_ms(5);
    keeper.run(define("a", 2)).unwrap();
    let semaphore = keeper.semaphore("a");
    assert_eq!((semaphore.created_at, semaphore.updated_at), (at(0), at(5)));
    let request = keeper.grant(&owned_by("x", ask("one", &[("a", 1)])));
    assert_eq!(
        (request.created_at, request.owner),
        (at(5), Some(owner("x")))
    );
}
