//! Owners' sessions: one heartbeat keeps all requests of the owner; silence or a goodbye ends all of them.

use std::time::Duration;

use futures_util::future::{join, join_all};
use lockhouse::{Code, EndReason, Lost};

use super::steps::{SOON, ask, eventually, in_use, owned_by};
use crate::place::Place;

const MINUTE: Duration = Duration::from_secs(60);

/// P10: a caller that wants the permits of a silent owner gets them.
pub async fn silence_frees_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    let heard = lockhouse
        .heartbeat("job", Duration::from_millis(100))
        .await
        .unwrap();
    assert!(heard.began);
    assert_eq!(heard.session.ttl.as_ms(), 100);
    for id in ["a", "b", "c"] {
        let held = owned_by(ask(id, &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    }
    lockhouse
        .acquire(ask("next", &[("s", 3)]), SOON)
        .await
        .unwrap();
    for id in ["a", "b", "c"] {
        let ended = lockhouse.find(id).await.unwrap();
        assert_eq!(ended.end_reason(), Some(EndReason::OwnerDead));
    }
    assert_eq!(in_use(&lockhouse, "s").await, 3);
}

/// One heartbeat keeps any number of requests. Another owner's silence does not matter.
pub async fn a_heartbeat_keeps_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 20).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    lockhouse
        .heartbeat("other", Duration::from_millis(1))
        .await
        .unwrap();
    let grants = (0..20).map(|i| {
        let held = owned_by(ask(&format!("r{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(grants).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    let wait = Duration::from_millis(300);
    lockhouse
        .acquire(ask("next", &[("s", 1)]), wait)
        .await
        .unwrap_err();
    let pushed = lockhouse.heartbeat("job", 2 * MINUTE).await.unwrap();
    assert_eq!((pushed.session.ttl.as_ms(), pushed.began), (120_000, false));
    assert_eq!(in_use(&lockhouse, "s").await, 20);
}

/// The requests are released, and the owner may begin a session again.
pub async fn a_goodbye_frees_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 5).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    for (id, owner) in [("a", "job"), ("b", "job"), ("c", "Job")] {
        let held = owned_by(ask(id, &[("s", 1)]), owner);
        lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    }
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 2);
    assert_eq!(in_use(&lockhouse, "s").await, 1, "Job is another than job");
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Released));
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 0);
    assert_eq!(lockhouse.goodbye("nobody").await.unwrap(), 0);
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let back = owned_by(ask("d", &[("s", 4)]), "job");
    lockhouse.acquire(back, Duration::ZERO).await.unwrap();
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 1);
}

/// A session that sends its heartbeats itself, for longer than its TTL.
pub async fn a_session_keeps_what_its_owner_holds_until_its_goodbye(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 2).await.unwrap();
    let ttl = Duration::from_secs(1);
    let session = one.session("job", ttl).await.unwrap();
    for id in ["a", "b"] {
        let permit = session
            .request_with_id(id)
            .permits("s", 1)
            .acquire()
            .await
            .unwrap();
        assert_eq!(permit.request().expires_at, None);
        permit.forget();
    }
    let next = owned_by(ask("next", &[("s", 1)]), "other");
    two.acquire(next, 3 * ttl).await.unwrap_err();
    assert!(!session.is_lost() && session.held_until().is_some());
    assert_eq!(session.goodbye().await.unwrap(), 2);
    assert_eq!(in_use(&two, "s").await, 0);
    assert!(two.heartbeat("job", ttl).await.unwrap().began);
}

/// P10: a drop is a goodbye. The requests of a forgotten session end when it lapses.
pub async fn a_session_that_is_dropped_frees_what_it_kept(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let hold = async |id: &str, ttl| {
        let session = lockhouse.session("job", ttl).await.unwrap();
        let permit = session.request_with_id(id).permits("s", 1).acquire().await;
        permit.unwrap().forget();
        session
    };
    drop(hold("a", MINUTE).await);
    eventually("it is freed", async || in_use(&lockhouse, "s").await == 0).await;
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Released));

    // The session is long enough for a store that stalls once between the heartbeat and the grant.
    hold("b", Duration::from_secs(2)).await.forget();
    lockhouse
        .acquire(ask("next", &[("s", 1)]), SOON)
        .await
        .unwrap();
    let ended = lockhouse.find("b").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::OwnerDead));
}

/// Another caller may hold the session's permits then.
pub async fn a_session_that_another_ends_is_lost(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    let session = one.session("job", Duration::from_secs(2)).await.unwrap();
    two.goodbye("job").await.unwrap();
    let lost = tokio::time::timeout(SOON, session.lost()).await.unwrap();
    assert_eq!(lost, Lost::Ended(EndReason::OwnerDead));
    assert!(session.is_lost());
}

/// P10: a grant to such a waiter would be lost at once.
pub async fn a_waiter_whose_session_ends_is_granted_nothing(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("a", 1).await.unwrap();
    let held = two.semaphore("a").acquire().await.unwrap();
    let session = one.session("job", Duration::from_secs(2)).await.unwrap();
    let semaphore = session.semaphore("a");
    let waits = semaphore.acquire();
    let ends = async { two.goodbye("job").await.unwrap() };
    let (waited, _) = tokio::time::timeout(SOON, join(waits, ends)).await.unwrap();
    assert_eq!(waited.unwrap_err().code(), Code::SessionEnded);
    let late = semaphore.try_acquire().await;
    assert_eq!(late.unwrap_err().code(), Code::SessionEnded);
    held.release().await.unwrap();
    // If the waiter was granted the permit in that moment, the permit is released.
    let next = one
        .request_with_id("next")
        .permits("a", 1)
        .wait(SOON)
        .acquire();
    next.await.unwrap().release().await.unwrap();
}

/// P9, P10: every renewal of an ended session is refused, however often it is repeated.
pub async fn an_ended_session_is_not_renewed(place: &Place) {
    let lockhouse = place.client().await;
    let beat_on = async || lockhouse.renew_session("job", MINUTE).await;
    let ended = async || {
        for _ in 0..2 {
            assert_eq!(beat_on().await.unwrap_err().code(), Code::SessionEnded);
        }
    };
    ended().await;
    lockhouse.heartbeat("job", 2 * MINUTE).await.unwrap();
    assert_eq!(beat_on().await.unwrap().ttl.as_ms(), 60_000);
    lockhouse.goodbye("job").await.unwrap();
    ended().await;
    let short = Duration::from_millis(1);
    lockhouse.heartbeat("job", short).await.unwrap();
    tokio::time::sleep(20 * short).await;
    ended().await;
}

/// The sweep ends no request that a session keeps, however old, and finds the stale requests behind such requests. A server
/// does the sweep itself.
pub async fn requests_of_a_session_are_never_stale(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 701).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let kept = (0..700).map(|i| {
        let held = owned_by(ask(&format!("kept-{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(kept).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    let old = owned_by(ask("old", &[("s", 1)]), "other");
    lockhouse.acquire(old, Duration::ZERO).await.unwrap();
    let upkeep = lockhouse::Upkeep {
        stale_after: Duration::from_millis(1),
        ..Default::default()
    };
    let swept = async || lockhouse.sweep(&upkeep).await.map(|swept| swept.stale);
    let Ok(mut stale) = swept().await else { return };
    eventually("the other is stale", async || {
        stale += swept().await.unwrap();
        stale > 0
    })
    .await;
    assert_eq!(stale, 1);
    let ended = lockhouse.find("old").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Stale));
    assert_eq!(in_use(&lockhouse, "s").await, 700);
}

/// An owner without a session is never silent.
pub async fn an_owner_without_a_session_keeps_what_it_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let held = owned_by(ask("a", &[("s", 1)]), "job");
    lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    let wait = Duration::from_millis(300);
    lockhouse
        .acquire(ask("next", &[("s", 1)]), wait)
        .await
        .unwrap_err();
    assert!(lockhouse.find("a").await.unwrap().is_live());
}

/// The owner has more requests than one piece ends.
pub async fn an_owner_of_many_is_freed_in_pieces(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1200).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let grants = (0..1200).map(|i| {
        let held = owned_by(ask(&format!("r{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(grants).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    lockhouse
        .heartbeat("job", Duration::from_millis(1))
        .await
        .unwrap();
    lockhouse
        .acquire(ask("next", &[("s", 1200)]), 2 * SOON)
        .await
        .unwrap();
    eventually("nothing else is held", async || {
        in_use(&lockhouse, "s").await == 1200
    })
    .await;
}
