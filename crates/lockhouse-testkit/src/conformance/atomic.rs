//! P6: a request on several semaphores is granted in one commit or not at all.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Code, Refusal};

use super::steps::{SOON, ask, grant, in_use, name, refusal};
use crate::place::Place;

/// P6.
pub async fn all_or_nothing_over_several_semaphores(place: &Place) {
    let lockhouse = place.client().await;
    for (semaphore, capacity) in [("a", 2), ("b", 3), ("c", 1)] {
        lockhouse.define(semaphore, capacity).await.unwrap();
    }
    grant(&lockhouse, "first", &[("c", 1), ("a", 1), ("b", 2)])
        .await
        .unwrap();
    let refused = refusal(grant(&lockhouse, "second", &[("b", 2), ("a", 1), ("c", 1)]).await);
    assert_eq!(
        refused,
        Refusal::Exhausted(vec![name("b"), name("c")]),
        "those that lacked it"
    );
    for (semaphore, used) in [("a", 1), ("b", 2), ("c", 1)] {
        assert_eq!(in_use(&lockhouse, semaphore).await, used);
    }
    let permits = lockhouse.release("first").await.unwrap().request.permits;
    let counts: Vec<_> = permits
        .iter()
        .map(|p| (p.semaphore.as_str(), p.count.value()))
        .collect();
    assert_eq!(counts, [("a", 1), ("b", 2), ("c", 1)]);
    for semaphore in ["a", "b", "c"] {
        assert_eq!(in_use(&lockhouse, semaphore).await, 0);
    }
}

/// P6, with two clients that ask for overlapping sets in every order.
pub async fn any_order_of_names_is_free_of_deadlock(place: &Place) {
    let clients = [place.client().await, place.client().await];
    for semaphore in ["a", "b", "c"] {
        clients[0].define(semaphore, 4).await.unwrap();
    }
    let orders = [
        ["a", "b"],
        ["b", "a"],
        ["b", "c"],
        ["c", "b"],
        ["c", "a"],
        ["a", "c"],
    ];
    let callers = (0..24).map(|i| {
        let lockhouse = clients[i % 2].clone();
        async move {
            for round in 0..5 {
                let [x, y] = orders[(i + round) % orders.len()];
                let id = format!("r{i}-{round}");
                lockhouse
                    .acquire(ask(&id, &[(x, 1), (y, 1)]), SOON)
                    .await
                    .unwrap();
                lockhouse.release(&id).await.unwrap();
            }
        }
    });
    tokio::time::timeout(SOON, join_all(callers))
        .await
        .expect("all are served");
    for semaphore in ["a", "b", "c"] {
        assert_eq!(in_use(&clients[0], semaphore).await, 0);
    }
}

/// An error that named one unknown semaphore at a time would need many tries.
pub async fn all_unknown_semaphores_are_named(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("known", 1).await.unwrap();
    let ask = ask("a", &[("x", 1), ("known", 1), ("y", 1)]);
    let refused = refusal(lockhouse.acquire(ask, Duration::from_secs(60)).await);
    assert_eq!(
        refused,
        Refusal::UnknownSemaphore(vec![name("x"), name("y")])
    );
    assert_eq!(refused.code(), Code::UnknownSemaphore);
    assert_eq!(in_use(&lockhouse, "known").await, 0);
}

/// P6, at the bound.
pub async fn sixty_four_semaphores_in_one_request(place: &Place) {
    let lockhouse = place.client().await;
    let names: Vec<String> = (0..64).map(|i| format!("s{i:02}")).collect();
    join_all(names.iter().map(|name| lockhouse.define(name, 2).send())).await;
    let permits: Vec<(&str, u32)> = names.iter().rev().map(|name| (name.as_str(), 1)).collect();
    grant(&lockhouse, "a", &permits).await.unwrap();
    let request = lockhouse.find("a").await.unwrap();
    assert!(
        request
            .permits
            .iter()
            .map(|p| p.semaphore.as_str())
            .eq(&names)
    );
    grant(&lockhouse, "b", &permits).await.unwrap();
    refusal(grant(&lockhouse, "c", &[("s63", 1)]).await);
    lockhouse.release("a").await.unwrap();
    for name in &names {
        assert_eq!(in_use(&lockhouse, name).await, 1);
    }
}
