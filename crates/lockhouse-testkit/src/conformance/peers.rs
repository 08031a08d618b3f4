//! Defects of other lock services that no other rule covers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join_all, join3, try_join_all};
use lockhouse::{Code, EndReason, Refusal};
use tokio::time::Instant;

use super::steps::{SOON, ask, grant, in_use, name, owned_by, refusal, with_ttl};
use crate::place::Place;

/// solid_queue #99: the first three callers of a semaphore deadlocked. P6.
pub async fn simultaneous_first_acquires_do_not_deadlock(place: &Place) {
    let clients = [
        place.client().await,
        place.client().await,
        place.client().await,
    ];
    for round in 0..10 {
        let names = [format!("a{round}"), format!("b{round}")];
        let firsts = clients.iter().enumerate().map(|(i, client)| {
            // In any order of names.
            let order = [&names[i % 2], &names[1 - i % 2]];
            let (id, permits) = (
                format!("r{round}-{i}"),
                order.map(|name| (name.as_str(), 1)),
            );
            async move {
                for name in order {
                    client.define(name, 3).await?;
                }
                grant(client, &id, &permits).await
            }
        });
        let granted = try_join_all(firsts).await.unwrap();
        let fences: BTreeSet<_> = granted
            .iter()
            .flat_map(|request| request.permits.iter())
            .map(|permit| (permit.semaphore.clone(), permit.fence))
            .collect();
        assert_eq!(fences.len(), 6, "each has its own fences");
    }
}

/// redisson #4678: all permits were held, and setting the capacity again handed them out again. P1.
pub async fn a_capacity_that_is_set_again_gives_nothing_out_twice(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    for id in ["a", "b"] {
        grant(&lockhouse, id, &[("s", 1)]).await.unwrap();
    }
    let full = Refusal::Exhausted(vec![name("s")]);
    for _ in 0..3 {
        lockhouse.define("s", 2).await.unwrap();
        assert_eq!(refusal(grant(&lockhouse, "c", &[("s", 1)]).await), full);
    }
    lockhouse.define("s", 3).await.unwrap();
    grant(&lockhouse, "c", &[("s", 1)]).await.unwrap();
    assert_eq!(refusal(grant(&lockhouse, "d", &[("s", 1)]).await), full);
    assert_eq!(in_use(&lockhouse, "s").await, 3);
}

/// redisson #6343: a release of several ids, one of them unknown, released the others and failed. Here each release is a
/// separate call with its own answer, also if releases share a commit. P3.
pub async fn an_unknown_id_among_others_fails_alone(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    for id in ["a", "b", "c", "kept"] {
        grant(&lockhouse, id, &[("s", 2)]).await.unwrap();
    }
    let ids = ["a", "unknown", "b", "a", "c"];
    let released = join_all(ids.map(|id| lockhouse.release(id))).await;
    let mut ended = BTreeSet::new();
    for (id, answer) in ids.into_iter().zip(released) {
        match answer {
            Ok(released) if released.now => assert!(ended.insert(id), "{id} ended twice"),
            Ok(released) => assert_eq!((id, released.now), ("a", false)),
            Err(error) => assert_eq!((id, error.code()), ("unknown", Code::UnknownRequest)),
        }
    }
    assert_eq!(ended, ["a", "b", "c"].into());
    assert_eq!(in_use(&lockhouse, "s").await, 2);
    // An ask that gets "unknown" leaves nothing behind under its id.
    lockhouse
        .acquire(ask("unknown", &[("s", 7)]), SOON)
        .await
        .unwrap();
}

/// solid_queue #761: the permits of a silent worker were released, and released again when the worker came back. So a limit
/// of 1 ran 11 jobs. P3.
pub async fn an_owner_that_was_given_up_releases_nothing_when_it_comes_back(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let silent = Duration::from_millis(50);
    for round in 0..11 {
        lockhouse.heartbeat("worker", silent).await.unwrap();
        let id = format!("job-{round}");
        let held = owned_by(ask(&id, &[("s", 1)]), "worker");
        lockhouse.acquire(held, SOON).await.unwrap();
        let next = format!("next-{round}");
        let of_another = ask(&next, &[("s", 1)]);
        lockhouse.acquire(of_another, SOON).await.unwrap();
        let late = lockhouse.release(&id).await.unwrap();
        assert!(!late.now);
        assert_eq!(late.request.end_reason(), Some(EndReason::OwnerDead));
        assert_eq!(in_use(&lockhouse, "s").await, 1);
        let one_more = grant(&lockhouse, "one more", &[("s", 1)]).await;
        assert_eq!(refusal(one_more), Refusal::Exhausted(vec![name("s")]));
        assert!(lockhouse.release(&next).await.unwrap().now);
    }
}

/// redisson #7329, prefect #21794: a release and an expiry at the same time were both counted. P2, P3.
pub async fn a_release_at_expiry_frees_permits_once(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    let ttl = Duration::from_millis(100);
    for round in 0..20 {
        let (id, next) = (format!("job-{round}"), format!("next-{round}"));
        let begun = Instant::now();
        let held = with_ttl(ask(&id, &[("s", 1)]), ttl);
        if let Err(late) = one.acquire(held, SOON).await {
            assert_eq!(
                late.code(),
                Code::RequestEnded,
                "over before it was granted"
            );
        }
        // The release comes before the expiry in some rounds, and after it in others.
        let about_then = begun + ttl - Duration::from_millis(10) + Duration::from_millis(round);
        tokio::time::sleep_until(about_then).await;
        let of_next = two.acquire(ask(&next, &[("s", 1)]), SOON);
        let all = join3(one.release(&id), two.release(&id), of_next).await;
        let (by_one, by_two, granted) = all;
        assert!(!(by_one.unwrap().now && by_two.unwrap().now), "{id}");
        granted.unwrap();
        assert_eq!(in_use(&one, "s").await, 1);
        assert!(one.release(&next).await.unwrap().now);
        assert_eq!(in_use(&one, "s").await, 0);
    }
}
