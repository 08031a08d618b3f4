//! *held*: fails unless the request is held, and keeps it held until the commit.

use std::pin::pin;
use std::time::Duration;

use lockhouse::EndReason;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::timeout;

use crate::{Caller, LONG, SOON, TTL, granted, pass};

on_each_store! { sql:
    only_what_is_held_is_held,
    permits_of_a_session_are_held_as_long_as_the_session,
    permits_held_in_a_transaction_are_not_granted_until_the_commit,
    a_release_waits_for_the_commit,
    force_waits_for_the_commit,
    a_goodbye_waits_for_the_commit,
    the_end_of_a_silent_owners_request_waits_for_the_commit,
}

on_each_store! { row locks:
    the_time_zone_of_the_session_does_not_count,
}

async fn only_what_is_held_is_held(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    let mut caller = Caller::open(&place).await;
    assert!(!caller.is_held("nobody").await);
    granted(&lockhouse, "s", "a", LONG).await;
    assert!(caller.is_held("a").await);
    assert!(caller.is_held("a").await, "it changes nothing");
    assert!(!caller.is_held("A").await, "ids are compared byte by byte");
    assert!(!caller.is_held("a ").await);
    lockhouse.release("a").await.unwrap();
    assert!(!caller.is_held("a").await, "released");

    granted(&lockhouse, "s", "forced", LONG).await;
    lockhouse.force_release("forced", None).await.unwrap();
    assert!(!caller.is_held("forced").await);

    granted(&lockhouse, "s", "brief", TTL).await;
    assert!(caller.is_held("brief").await);
    pass(TTL).await;
    assert!(!caller.is_held("brief").await, "past its time, not swept");

    let lasting = lockhouse.request_with_id("lasting").permits("s", 1);
    lasting.without_ttl().acquire().await.unwrap().forget();
    assert!(caller.is_held("lasting").await);

    caller.begin().await;
    assert!(caller.finish("lasting").await);
    assert!(!caller.held("lasting").await, "in the same transaction");
    caller.roll_back().await;
    caller.begin().await;
    assert!(caller.finish("lasting").await);
    caller.commit().await;
    assert!(!caller.is_held("lasting").await, "finished");
    drop(lockhouse);
    place.clear().await;
}

async fn permits_of_a_session_are_held_as_long_as_the_session(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    let mut caller = Caller::open(&place).await;
    lockhouse.heartbeat("w", TTL).await.unwrap();
    let kept = lockhouse.request_with_id("kept").permits("s", 1);
    let kept = kept.owner("w").without_ttl().acquire().await.unwrap();
    kept.forget();
    assert!(caller.is_held("kept").await);
    pass(TTL).await;
    assert!(!caller.is_held("kept").await, "its session has lapsed");
    caller.begin().await;
    assert!(!caller.finish("kept").await);
    caller.roll_back().await;
    drop(lockhouse);
    place.clear().await;
}

/// The caller pauses past the TTL, while a waiter wants the permit.
async fn permits_held_in_a_transaction_are_not_granted_until_the_commit(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let first = granted(&lockhouse, "s", "first", TTL).await;
    caller.begin().await;
    assert!(caller.held("first").await);
    let semaphore = lockhouse.semaphore("s");
    let mut next = pin!(semaphore.acquire());
    timeout(2 * TTL, &mut next).await.unwrap_err();
    caller.commit().await;
    let next = timeout(SOON, next).await.unwrap().unwrap();
    assert!(next.fence("s") > first.permits[0].fence);
    let first = lockhouse.find("first").await.unwrap();
    assert_eq!(first.end_reason(), Some(EndReason::Expired));
    drop(next);
    drop(lockhouse);
    place.clear().await;
}

async fn a_release_waits_for_the_commit(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.held("a").await);
    let mut release = pin!(lockhouse.release("a"));
    timeout(Duration::from_secs(1), &mut release)
        .await
        .unwrap_err();
    caller.commit().await;
    let released = timeout(SOON, release).await.unwrap().unwrap();
    assert!(released.now);
    place.clear().await;
}

async fn force_waits_for_the_commit(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    granted(&lockhouse, "s", "a", LONG).await;
    caller.begin().await;
    assert!(caller.held("a").await);
    let mut force = pin!(lockhouse.force_release("a", Some("operator")));
    timeout(Duration::from_secs(1), &mut force)
        .await
        .unwrap_err();
    assert!(lockhouse.find("a").await.unwrap().is_live());
    caller.commit().await;
    let released = timeout(SOON, force).await.unwrap().unwrap();
    assert!(released.now);
    let reason = released.request.end_reason();
    assert_eq!(reason, Some(EndReason::Forced));
    place.clear().await;
}

async fn a_goodbye_waits_for_the_commit(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    lockhouse.heartbeat("w", LONG).await.unwrap();
    let kept = lockhouse.request_with_id("kept").permits("s", 1);
    let kept = kept.owner("w").without_ttl().acquire().await.unwrap();
    kept.forget();
    caller.begin().await;
    assert!(caller.held("kept").await);
    let mut goodbye = pin!(lockhouse.goodbye("w"));
    timeout(Duration::from_secs(1), &mut goodbye)
        .await
        .unwrap_err();
    assert!(lockhouse.find("kept").await.unwrap().is_live());
    caller.commit().await;
    assert_eq!(timeout(SOON, goodbye).await.unwrap().unwrap(), 1);
    assert!(!lockhouse.find("kept").await.unwrap().is_live());
    place.clear().await;
}

async fn the_end_of_a_silent_owners_request_waits_for_the_commit(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let silence = 4 * TTL;
    lockhouse.heartbeat("w", silence).await.unwrap();
    let kept = lockhouse.request_with_id("kept").permits("s", 1);
    let kept = kept.owner("w").without_ttl().acquire().await.unwrap();
    kept.forget();
    caller.begin().await;
    assert!(caller.held("kept").await);
    let semaphore = lockhouse.semaphore("s");
    let mut next = pin!(semaphore.acquire());
    timeout(silence + TTL, &mut next).await.unwrap_err();
    assert!(lockhouse.find("kept").await.unwrap().is_live());
    caller.commit().await;
    let next = timeout(SOON, next).await.unwrap().unwrap();
    let kept = lockhouse.find("kept").await.unwrap();
    assert_eq!(kept.end_reason(), Some(EndReason::OwnerDead));
    drop(next);
    drop(lockhouse);
    place.clear().await;
}

async fn the_time_zone_of_the_session_does_not_count(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    let mut caller = Caller::open(&place).await;
    let zones = match place.url().starts_with("postgres") {
        true => ["SET TIME ZONE '+13:00'", "SET TIME ZONE '-11:00'"],
        false => ["SET time_zone='+13:00'", "SET time_zone='-11:00'"],
    };
    for (zone, id) in zones.into_iter().zip(["east", "west"]) {
        caller.database.run(zone).await;
        granted(&lockhouse, "s", id, Duration::from_secs(5)).await;
        assert!(caller.is_held(id).await, "{zone}");
        caller.begin().await;
        assert!(caller.finish(id).await, "{zone}");
        caller.commit().await;
        let released = lockhouse.release(id).await.unwrap();
        assert!(!released.now, "it was finished");
        let brief = format!("{id}-brief");
        granted(&lockhouse, "s", &brief, TTL).await;
        pass(TTL).await;
        assert!(!caller.is_held(&brief).await, "{zone}");
    }
    drop(lockhouse);
    place.clear().await;
}
