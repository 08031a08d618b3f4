//! *finish*: the permits return with the caller's commit, not before and not without it.

use std::pin::pin;
use std::time::Duration;

use lockhouse::caller::{SqlDialect, finish_sql, held_sql};
use lockhouse::{EndReason, Lockhouse, Lost, Upkeep};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{sleep, timeout};

use crate::{Caller, LONG, SOON, TTL, end_reason, granted, pass, timed};

on_each_store! { sql:
    permits_return_with_the_commit_and_not_before,
    after_a_rollback_the_request_is_held_as_before,
    a_caller_that_is_killed_finishes_nothing,
    a_commit_after_the_ttl_is_a_release,
    a_caller_that_comes_after_the_ttl_finishes_nothing,
    nothing_revives_what_was_finished,
    a_release_after_the_commit_wakes_waiters,
    the_sweep_ends_what_was_finished,
    requests_without_ttl_and_with_slots_of_several_semaphores_are_finished,
    a_permit_learns_that_it_was_finished,
    a_request_is_finished_once,
}

on_each_store! { row locks:
    of_two_that_finish_at_once_one_does,
    a_caller_that_waits_for_a_renewal_sees_it,
}

async fn permits_return_with_the_commit_and_not_before(place: Place) {
    let (holder, other) = (place.client().await, place.client().await);
    holder.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&holder, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    let semaphore = other.semaphore("s");
    let mut next = pin!(semaphore.acquire());
    timeout(Duration::from_secs(1), &mut next)
        .await
        .unwrap_err();
    caller.commit().await;
    let (handed_over, usual) = tokio::join!(timed(timeout(SOON, next)), longest_of_five(&other));
    let (next, took) = handed_over;
    let next = next.unwrap().unwrap();
    println!(
        "a waiter had the permit {took:?} after the commit; another call took up to {usual:?}"
    );
    // A handover takes a few calls, and a busy machine delays each.
    let promised = Duration::from_millis(500);
    assert!(
        took <= promised + 5 * usual,
        "{took:?}, and {usual:?} for another call"
    );
    let a = holder.find("a").await.unwrap();
    assert_eq!(a.end_reason(), Some(EndReason::Released));
    assert_eq!(a.ended_by, None);
    next.release().await.unwrap();
    assert!(holder.verify().await.unwrap().is_empty());
    drop((holder, other));
    place.clear().await;
}

/// How long the longest of five calls that grant and release took.
async fn longest_of_five(lockhouse: &Lockhouse) -> Duration {
    lockhouse.define("other", 1).await.unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let call = async {
            let permit = lockhouse.semaphore("other").acquire().await.unwrap();
            permit.release().await.unwrap();
        };
        longest = longest.max(timed(call).await.1);
        sleep(Duration::from_millis(50)).await;
    }
    longest
}

async fn after_a_rollback_the_request_is_held_as_before(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let before = granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    caller.roll_back().await;
    assert_eq!(lockhouse.find("a").await.unwrap(), before);
    lockhouse.semaphore("s").try_acquire().await.unwrap_err();
    lockhouse.renew("a", None).await.unwrap();
    assert!(caller.is_held("a").await);
    assert!(lockhouse.release("a").await.unwrap().now);
    drop(lockhouse);
    place.clear().await;
}

async fn a_caller_that_is_killed_finishes_nothing(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    // The server sees the connection break, and rolls back.
    drop(caller);
    lockhouse.semaphore("s").try_acquire().await.unwrap_err();
    timeout(SOON, lockhouse.renew("a", None))
        .await
        .unwrap()
        .unwrap();
    assert!(lockhouse.release("a").await.unwrap().now);
    drop(lockhouse);
    place.clear().await;
}

async fn a_commit_after_the_ttl_is_a_release(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", TTL).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    let semaphore = lockhouse.semaphore("s");
    let mut next = pin!(semaphore.acquire());
    timeout(2 * TTL, &mut next).await.unwrap_err();
    caller.commit().await;
    let next = timeout(SOON, next).await.unwrap().unwrap();
    next.release().await.unwrap();
    let a = lockhouse.find("a").await.unwrap();
    assert_eq!(a.end_reason(), Some(EndReason::Released));
    drop(lockhouse);
    place.clear().await;
}

async fn a_caller_that_comes_after_the_ttl_finishes_nothing(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    for is_taken_by_another in [false, true] {
        let id = format!("a-{is_taken_by_another}");
        granted(&lockhouse, "s", &id, TTL).await;
        pass(TTL).await;
        let another = match is_taken_by_another {
            true => Some(lockhouse.semaphore("s").acquire().await.unwrap()),
            false => None,
        };
        caller.begin().await;
        assert!(!caller.finish(&id).await);
        caller.roll_back().await;
        let reason = end_reason(lockhouse.renew(&id, None).await);
        assert_eq!(reason, EndReason::Expired);
        if let Some(another) = another {
            assert!(another.release().await.unwrap().now);
        }
    }
    drop(lockhouse);
    place.clear().await;
}

/// P3, P4, P5: an end by *finish* is a release, whichever command touches the request first.
async fn nothing_revives_what_was_finished(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    let mut caller = Caller::open(&place).await;
    for id in ["renewed", "released", "forced", "asked-again"] {
        granted(&lockhouse, "s", id, LONG).await;
        caller.begin().await;
        assert!(caller.finish(id).await);
        caller.commit().await;
    }
    let renewed = end_reason(lockhouse.renew("renewed", None).await);
    assert_eq!(renewed, EndReason::Released);
    let released = lockhouse.release("released").await.unwrap();
    assert!(!released.now, "the commit has released it");
    let forced = lockhouse.force_release("forced", None).await.unwrap();
    assert!(!forced.now);
    for end in [released, forced] {
        assert_eq!(end.request.end_reason(), Some(EndReason::Released));
        assert_eq!(end.request.ended_by, None);
    }
    let again = lockhouse.request_with_id("asked-again").permits("s", 1);
    let again = end_reason(again.ttl(LONG).try_acquire().await);
    assert_eq!(again, EndReason::Released);
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 0);
    assert!(lockhouse.verify().await.unwrap().is_empty());
    drop(lockhouse);
    place.clear().await;
}

async fn a_release_after_the_commit_wakes_waiters(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    let id = permit.external_id().to_string();
    let semaphore = lockhouse.semaphore("s");
    let mut next = pin!(semaphore.acquire());
    timeout(Duration::from_millis(100), &mut next)
        .await
        .unwrap_err();
    caller.begin().await;
    assert!(caller.finish(&id).await);
    caller.commit().await;
    let handed_over = async {
        let (released, next) = tokio::join!(permit.release(), timeout(SOON, next));
        assert_eq!(
            released.unwrap().request.end_reason(),
            Some(EndReason::Released)
        );
        next.unwrap().unwrap()
    };
    let (next, took) = timed(handed_over).await;
    println!("a waiter had the permit {took:?} after the release");
    drop(next);
    drop(lockhouse);
    place.clear().await;
}

async fn the_sweep_ends_what_was_finished(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    let upkeep = Upkeep::default();
    // On SQLite the transaction has the file's only write lock, which a sweep needs.
    if caller.dialect != SqlDialect::Sqlite {
        assert_eq!(lockhouse.sweep(&upkeep).await.unwrap().lapsed, 0);
    }
    caller.commit().await;
    assert_eq!(lockhouse.sweep(&upkeep).await.unwrap().lapsed, 1);
    let a = lockhouse.find("a").await.unwrap();
    assert_eq!(a.end_reason(), Some(EndReason::Released));
    assert_eq!(lockhouse.sweep(&upkeep).await.unwrap().lapsed, 0);
    drop(lockhouse);
    place.clear().await;
}

async fn requests_without_ttl_and_with_slots_of_several_semaphores_are_finished(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    lockhouse.define("gpu", 4).slots().await.unwrap();
    let mut caller = Caller::open(&place).await;
    let lasting = lockhouse.request_with_id("lasting").permits("s", 3);
    let lasting = lasting.permits("gpu", 2).without_ttl();
    lasting.acquire().await.unwrap().forget();
    lockhouse.heartbeat("w", LONG).await.unwrap();
    let kept = lockhouse.request_with_id("kept").permits("gpu", 2);
    let kept = kept.owner("w").without_ttl();
    kept.acquire().await.unwrap().forget();
    caller.begin().await;
    assert!(caller.finish("lasting").await);
    assert!(caller.finish("kept").await, "several in one transaction");
    caller.commit().await;
    let next = lockhouse.request().permits("gpu", 4).permits("s", 3);
    let next = timeout(SOON, next.acquire()).await.unwrap().unwrap();
    assert_eq!(next.slots("gpu"), [0, 1, 2, 3]);
    for id in ["lasting", "kept"] {
        let request = lockhouse.find(id).await.unwrap();
        assert_eq!(request.end_reason(), Some(EndReason::Released), "{id}");
    }
    next.release().await.unwrap();
    assert!(lockhouse.verify().await.unwrap().is_empty());
    drop(lockhouse);
    place.clear().await;
}

async fn a_permit_learns_that_it_was_finished(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let request = lockhouse.request_with_id("a").permits("s", 1);
    let permit = request
        .ttl(Duration::from_secs(10))
        .acquire()
        .await
        .unwrap();
    caller.begin().await;
    assert!(caller.finish("a").await);
    sleep(Duration::from_millis(1_200)).await;
    caller.commit().await;
    let lost = timeout(SOON, permit.lost()).await.unwrap();
    assert_eq!(lost, Lost::Ended(EndReason::Released));
    drop(permit);
    drop(lockhouse);
    place.clear().await;
}

async fn a_request_is_finished_once(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    assert!(!caller.finish("a").await, "in the same transaction");
    caller.roll_back().await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    caller.commit().await;
    caller.begin().await;
    assert!(!caller.finish("a").await, "in another");
    caller.roll_back().await;
    lockhouse.release("a").await.unwrap();
    caller.begin().await;
    assert!(!caller.finish("a").await, "after its end");
    caller.roll_back().await;
    drop(lockhouse);
    place.clear().await;
}

async fn of_two_that_finish_at_once_one_does(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let (mut one, mut other) = (Caller::open(&place).await, Caller::open(&place).await);
    for commits in [true, false] {
        let id = format!("a-{commits}");
        granted(&lockhouse, "s", &id, LONG).await;
        one.begin().await;
        assert!(one.finish(&id).await);
        other.begin().await;
        {
            let mut finishes = pin!(other.finish(&id));
            let early = timeout(Duration::from_millis(500), &mut finishes).await;
            early.expect_err("it waits for the other");
            match commits {
                true => one.commit().await,
                false => one.roll_back().await,
            }
            assert_eq!(finishes.await, !commits);
        }
        match commits {
            true => other.roll_back().await,
            false => other.commit().await,
        }
        let reason = end_reason(lockhouse.renew(&id, None).await);
        assert_eq!(reason, EndReason::Released);
    }
    drop(lockhouse);
    place.clear().await;
}

/// The TTL passes while a renewal is being saved.
async fn a_caller_that_waits_for_a_renewal_sees_it(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let (mut renewal, mut caller) = (Caller::open(&place).await, Caller::open(&place).await);
    let later = renewal.database.seconds_ago("-600");
    let renew = format!(
        "UPDATE lockhouse_permit_request SET ttl_ms=600000,expires_at={later} WHERE external_id="
    );
    for finishes in [true, false] {
        let id = format!("a-{finishes}");
        granted(&lockhouse, "s", &id, TTL).await;
        renewal.begin().await;
        renewal.database.run(&format!("{renew}'{id}'")).await;
        caller.begin().await;
        let sql = match finishes {
            true => finish_sql(caller.dialect),
            false => held_sql(caller.dialect),
        };
        {
            let mut sees = pin!(caller.run(sql, &id));
            timeout(2 * TTL, &mut sees).await.unwrap_err();
            renewal.commit().await;
            assert!(sees.await, "it was renewed");
        }
        caller.commit().await;
    }
    let reason = end_reason(lockhouse.renew("a-true", None).await);
    assert_eq!(reason, EndReason::Released);
    lockhouse.renew("a-false", None).await.unwrap();
    drop(lockhouse);
    place.clear().await;
}
