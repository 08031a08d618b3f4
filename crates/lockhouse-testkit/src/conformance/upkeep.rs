//! Ends of requests by time, by force, or by a condition.

use std::time::{Duration, Instant};

use lockhouse::{EndReason, Refusal};

use super::steps::{SOON, ask, eventually, grant, in_use, name, refusal, with_ttl};
use crate::place::Place;

/// P10: the permits return within the TTL plus a second, if a caller wants them.
pub async fn a_dead_holders_permits_are_granted_to_a_waiter(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    lockhouse.define("t", 1).await.unwrap();
    let ttl = Duration::from_secs(2);
    for (id, permits) in [("a", &[("s", 1), ("t", 1)][..]), ("b", &[("s", 1)][..])] {
        let dead = with_ttl(ask(id, permits), ttl);
        lockhouse.acquire(dead, Duration::ZERO).await.unwrap();
    }
    refusal(grant(&lockhouse, "early", &[("s", 1)]).await);
    let began = Instant::now();
    lockhouse
        .acquire(ask("next", &[("s", 2)]), SOON)
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(took < ttl + Duration::from_secs(5), "{took:?}");
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Expired));
    assert!(
        ended.released_at() >= ended.expires_at,
        "by the store's clock"
    );
    assert_eq!(in_use(&lockhouse, "t").await, 0, "the whole request ended");
}

/// Lapsed permits count as free.
pub async fn a_semaphore_with_only_lapsed_permits_can_be_deleted(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let dead = with_ttl(ask("a", &[("s", 1)]), Duration::from_millis(50));
    // If the answer takes longer than the TTL, it says that the request has expired.
    let _ = lockhouse.acquire(dead, Duration::ZERO).await;
    eventually("it can be deleted", async || {
        lockhouse.delete("s").await.is_ok()
    })
    .await;
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Expired));
}

/// P8: a grant that expired before the store answered is not reported as a grant. In node-redlock 296, and in etcd 11456 and
/// 9921, callers got grants that had expired already.
pub async fn a_grant_is_never_returned_that_had_expired(place: &Place) {
    let late = place.late_client(Duration::from_millis(300)).await;
    late.define("s", 100).await.unwrap();
    let brief = with_ttl(ask("brief", &[("s", 1)]), Duration::from_millis(100));
    let ended = refusal(late.acquire(brief, Duration::ZERO).await);
    let expired = Refusal::RequestEnded {
        external_id: "brief".parse().unwrap(),
        reason: EndReason::Expired,
    };
    assert_eq!(ended, expired);
    assert_eq!(in_use(&late, "s").await, 0);
    // An answer is a grant if time is left when it comes, however late it is.
    let long = with_ttl(ask("long", &[("s", 1)]), Duration::from_secs(60));
    let (request, now) = late.acquire(long, Duration::ZERO).await.unwrap();
    assert!(now && request.is_live());
}

/// Force ends any owner's hold, and the request keeps the name of the caller.
pub async fn force_ends_a_hold_and_says_who(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "a", &[("s", 1)]).await.unwrap();
    let forced = two.force_release("a", Some("operator")).await.unwrap();
    assert!(forced.now);
    assert_eq!(forced.request.end_reason(), Some(EndReason::Forced));
    assert_eq!(
        forced.request.ended_by.as_ref().unwrap().as_str(),
        "operator"
    );
    assert_eq!(one.find("a").await.unwrap(), forced.request);
    assert!(!two.force_release("a", None).await.unwrap().now);
    let unknown = refusal(two.force_release("b", None).await);
    assert_eq!(unknown, Refusal::UnknownRequest("b".parse().unwrap()));
    grant(&one, "b", &[("s", 1)]).await.unwrap();
}

/// P3: an ended request names the holder, the other caller, or the owner that said goodbye. It names nobody if time ended
/// it.
pub async fn a_release_names_its_caller(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 9).await.unwrap();
    let by = async |id: &str| {
        let ended = one.find(id).await.unwrap();
        ended.ended_by.map(|by| by.to_string())
    };
    for id in ["by holder", "by drop", "by stranger", "by goodbye", "by id"] {
        let held = one.request_with_id(id).permits("s", 1).owner("ann");
        let permit = held.acquire().await.unwrap();
        match id {
            "by holder" => assert!(permit.release().await.unwrap().now),
            "by drop" => {
                drop(permit);
                eventually("it is given back", async || by(id).await.is_some()).await;
            }
            "by stranger" => {
                let ended = two.release_by(permit.forget(), "bob").await.unwrap();
                assert_eq!(ended.request.end_reason(), Some(EndReason::Released));
            }
            "by goodbye" => {
                permit.forget();
                assert_eq!(two.goodbye("ann").await.unwrap(), 1);
            }
            _ => assert!(two.release(permit.forget()).await.unwrap().now),
        }
    }
    for (id, expected) in [
        ("by holder", "ann"),
        ("by drop", "ann"),
        ("by stranger", "bob"),
        ("by goodbye", "ann"),
    ] {
        assert_eq!(by(id).await.as_deref(), Some(expected), "{id}");
    }
    let process = by("by id").await.unwrap();
    assert!(
        process.ends_with(&std::process::id().to_string()),
        "{process}"
    );
    let ttl = Duration::from_millis(1);
    let brief = with_ttl(ask("expired", &[("s", 1)]), ttl);
    // The request may have expired before it is answered.
    one.acquire(brief, Duration::ZERO).await.ok();
    tokio::time::sleep(20 * ttl).await;
    assert!(!two.release("expired").await.unwrap().now);
    assert_eq!(by("expired").await, None);
}

/// P10, P12: lapsed requests also end if no process does the upkeep and no caller wants their permits.
pub async fn a_client_that_acquires_sweeps_what_has_lapsed_elsewhere(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("full", 1).await.unwrap();
    lockhouse.define("elsewhere", 9).await.unwrap();
    let brief = Duration::from_secs(1);
    for (id, name) in [("a", "elsewhere"), ("b", "elsewhere"), ("c", "full")] {
        let dead = with_ttl(ask(id, &[(name, 1)]), brief);
        lockhouse.acquire(dead, Duration::ZERO).await.unwrap();
    }
    eventually("the lapsed request is ended", async || {
        // The first caller that finds the lapsed request on "c" learns that no process sweeps.
        let full = lockhouse.semaphore("full").try_acquire().await;
        drop(full);
        in_use(&lockhouse, "elsewhere").await == 0
    })
    .await;
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Expired));
}

/// Two callers resize from the same capacity. The store refuses one of them, which must read the capacity again.
pub async fn a_conditional_resize_that_lost_is_refused(place: &Place) {
    let lockhouse = place.client().await;
    let missing = refusal(lockhouse.define("s", 1).expected(0).await);
    assert_eq!(missing, Refusal::UnknownSemaphore(vec![name("s")]));
    lockhouse.define("s", 4).await.unwrap();
    lockhouse.define("s", 6).expected(4).await.unwrap();
    lockhouse
        .define("s", 6)
        .expected(4)
        .await
        .expect("asked again, it is done");
    let lost = refusal(lockhouse.define("s", 8).expected(4).await);
    let Refusal::CapacityChanged {
        expected, capacity, ..
    } = lost
    else {
        panic!("{lost:?}");
    };
    assert_eq!((expected.value(), capacity.value()), (4, 6));
    assert_eq!(lockhouse.history("s", 10).await.unwrap().len(), 1);
}

/// One round ends the due requests, deletes the old rows, and leaves the rest. Afterwards the rows are consistent. A server
/// does its own upkeep, so there the client must get an error that says so.
pub async fn upkeep_ends_what_is_due_and_nothing_else(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 10).await.unwrap();
    lockhouse.define("s", 11).await.unwrap();
    let upkeep = lockhouse::Upkeep {
        stale_after: Duration::from_millis(1),
        purge_after: Duration::from_secs(3600),
        ..Default::default()
    };
    let timed = with_ttl(ask("timed", &[("s", 1)]), Duration::from_secs(60));
    lockhouse.acquire(timed, Duration::ZERO).await.unwrap();
    let ttl = Duration::from_secs(1);
    let dead = with_ttl(ask("dead", &[("s", 2)]), ttl);
    lockhouse.acquire(dead, Duration::ZERO).await.unwrap();
    grant(&lockhouse, "stale", &[("s", 3)]).await.unwrap();
    tokio::time::sleep(ttl + Duration::from_millis(20)).await;
    let swept = match lockhouse.sweep(&upkeep).await {
        Ok(swept) => swept,
        Err(error) => {
            assert!(error.to_string().contains("server"), "{error}");
            return;
        }
    };
    assert_eq!((swept.lapsed, swept.stale, swept.purged), (1, 1, 0));
    assert_eq!(in_use(&lockhouse, "s").await, 1);
    let ended = lockhouse.find("stale").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Stale));
    assert!(lockhouse.verify().await.unwrap().is_empty());

    let past = lockhouse::Upkeep {
        purge_after: Duration::from_millis(1),
        purge_batch: 1,
        history_after: Duration::from_millis(1),
        ..upkeep
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    let swept = lockhouse.sweep(&past).await.unwrap();
    assert_eq!(
        (
            swept.lapsed,
            swept.stale,
            swept.purged,
            swept.history_purged
        ),
        (0, 0, 2, 1)
    );
    refusal(lockhouse.find("stale").await);
    assert!(lockhouse.find("timed").await.unwrap().is_live());
    assert!(lockhouse.history("s", 10).await.unwrap().is_empty());
    assert!(lockhouse.verify().await.unwrap().is_empty());
}
