//! P5: one id has one ask and at most one grant.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Code, EndReason, Refusal};

use super::steps::{ask, grant, in_use, owned_by, refusal, with_ttl};
use crate::place::Place;

/// P5: the order of the permits, the TTL and the wait do not count.
pub async fn the_same_ask_gives_the_same_grant(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 2).await.unwrap();
    one.define("t", 2).await.unwrap();
    let first = owned_by(ask("a", &[("s", 1), ("t", 2)]), "me");
    let (granted, now) = one.acquire(first, Duration::ZERO).await.unwrap();
    assert!(now);
    let again = with_ttl(
        owned_by(ask("a", &[("t", 2), ("s", 1)]), "me"),
        Duration::from_secs(9),
    );
    for lockhouse in [&one, &two] {
        let (same, now) = lockhouse
            .acquire(again.clone(), Duration::from_secs(5))
            .await
            .unwrap();
        assert!(!now);
        assert_eq!(same, granted);
    }
    assert_eq!(in_use(&one, "s").await, 1);
    assert_eq!(in_use(&one, "t").await, 2);
}

/// P5: also if many clients send it many times at once.
pub async fn the_same_ask_from_many_at_once_is_granted_once(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 50).await.unwrap();
    let calls = (0..40).map(|i| {
        let lockhouse = if i % 2 == 0 { one.clone() } else { two.clone() };
        async move {
            lockhouse
                .acquire(ask("a", &[("s", 1)]), Duration::ZERO)
                .await
                .unwrap()
        }
    });
    let answers = join_all(calls).await;
    assert_eq!(answers.iter().filter(|(_, now)| *now).count(), 1);
    assert!(answers.iter().all(|(request, _)| *request == answers[0].0));
    assert_eq!(in_use(&one, "s").await, 1);
}

/// P5.
pub async fn another_ask_under_the_same_id_is_a_conflict(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 5).await.unwrap();
    lockhouse.define("t", 5).await.unwrap();
    let first = owned_by(ask("a", &[("s", 1)]), "me");
    let (granted, _) = lockhouse.acquire(first, Duration::ZERO).await.unwrap();
    let others = [
        owned_by(ask("a", &[("s", 2)]), "me"),
        owned_by(ask("a", &[("t", 1)]), "me"),
        owned_by(ask("a", &[("s", 1), ("t", 1)]), "me"),
        owned_by(ask("a", &[("s", 1)]), "you"),
        ask("a", &[("s", 1)]),
        owned_by(ask("a", &[("nowhere", 1)]), "me"),
    ];
    for other in others {
        let refused = refusal(lockhouse.acquire(other, Duration::ZERO).await);
        assert_eq!(
            refused,
            Refusal::IdempotencyConflict(granted.external_id.clone())
        );
    }
    assert_eq!(lockhouse.find("a").await.unwrap(), granted);
    assert_eq!(
        (in_use(&lockhouse, "s").await, in_use(&lockhouse, "t").await),
        (1, 0)
    );
}

/// P5.
pub async fn after_its_end_an_id_is_never_granted_again(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "a", &[("s", 1)]).await.unwrap();
    one.release("a").await.unwrap();
    for lockhouse in [&one, &two] {
        let refused = refusal(grant(lockhouse, "a", &[("s", 1)]).await);
        let (external_id, reason) = ("a".parse().unwrap(), EndReason::Released);
        assert_eq!(
            refused,
            Refusal::RequestEnded {
                external_id,
                reason
            }
        );
    }
    assert_eq!(in_use(&one, "s").await, 0);
}

/// P5: a later call may use the same id, also with another ask.
pub async fn a_refused_ask_leaves_no_trace(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    grant(&lockhouse, "a", &[("s", 2)]).await.unwrap();
    refusal(grant(&lockhouse, "b", &[("s", 1)]).await);
    assert_eq!(
        refusal(lockhouse.find("b").await).code(),
        Code::UnknownRequest
    );
    refusal(grant(&lockhouse, "b", &[("nowhere", 1)]).await);
    lockhouse.release("a").await.unwrap();
    grant(&lockhouse, "b", &[("s", 2)]).await.unwrap();
}

/// The databases' default collations do not.
pub async fn ids_are_compared_byte_by_byte(place: &Place) {
    let lockhouse = place.client().await;
    let alike = [
        "Job-1",
        "job-1",
        "JOB-1",
        "é",
        "e\u{301}",
        "ß",
        "ss",
        "a b",
        "a\u{a0}b",
        "🦀",
        "🐢",
        "a",
        "a\u{200b}",
        "ａ",
        "1",
        "１",
        "i",
        "ı",
    ];
    lockhouse.define("s", 100).await.unwrap();
    for id in alike {
        lockhouse.define(id, 1).await.unwrap();
        grant(&lockhouse, id, &[("s", 1), (id, 1)]).await.unwrap();
    }
    for id in alike {
        let request = lockhouse.find(id).await.unwrap();
        assert_eq!(request.external_id.as_str(), id);
        assert_eq!(request.permits.len(), 2);
        assert_eq!(in_use(&lockhouse, id).await, 1);
    }
    assert_eq!(in_use(&lockhouse, "s").await, alike.len() as u32);
    for unknown in ["jOB-1", "É", "A", "I"] {
        let unknown_request = refusal(lockhouse.find(unknown).await).code();
        assert_eq!(unknown_request, Code::UnknownRequest, "{unknown}");
        let unknown_semaphore = refusal(lockhouse.status(unknown).await).code();
        assert_eq!(unknown_semaphore, Code::UnknownSemaphore, "{unknown}");
    }
}
