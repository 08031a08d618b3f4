//! Waiting for room over HTTP, and hanging up.

use std::time::{Duration, Instant};

use crate::full::{full, waiter};
use crate::server::until;

#[tokio::test]
async fn who_waits_is_granted_what_comes_back() {
    let server = full().await;
    let ask = r#"{"permits":[{"semaphore":"a"}],"wait_ms":60000}"#;
    let waiting = server.put("/v1/requests/y", ask);
    let releasing = async {
        until("one waits", || async { server.waiting("a").await == 1 }).await;
        let shown = server.get("/v1/semaphores/a").await.json();
        assert_eq!(shown["waiting"], 1);
        let resized = server
            .put("/v1/semaphores/a", r#"{"capacity":1}"#)
            .await
            .json();
        assert_eq!(resized["waiting"], 1, "a definition tells it too");
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
    };
    let (granted, ()) = tokio::join!(waiting, releasing);
    assert_eq!(granted.is(201).json()["permits"][0]["fence"], 2);
    assert_eq!(server.waiting("a").await, 0);
}

#[tokio::test]
async fn a_wait_ends() {
    let server = full().await;
    let begun = Instant::now();
    let ask = r#"{"permits":[{"semaphore":"a"}],"wait_ms":100}"#;
    let answer = server.put("/v1/requests/y", ask).await;
    answer.is_problem(423, "exhausted");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

/// P10.
#[tokio::test]
async fn who_hangs_up_gives_the_place_up_and_is_granted_nothing() {
    let server = full().await;
    let waiters = [waiter(&server, "y").await, waiter(&server, "z").await];
    until("two wait", || async { server.waiting("a").await == 2 }).await;
    drop(waiters);
    until("nobody waits", || async { server.waiting("a").await == 0 }).await;

    server.call("DELETE", "/v1/requests/x", "").await.is(200);
    let shown = server.get("/v1/semaphores/a").await.json();
    assert_eq!(shown["in_use"], 0);
    for id in ["y", "z"] {
        let path = format!("/v1/requests/{id}");
        server.get(&path).await.is_problem(404, "unknown_request");
    }
}

#[tokio::test]
async fn a_dropped_future_of_the_client_gives_the_place_up() {
    let server = full().await;
    let client = server.client().await;
    let waiting = tokio::spawn(async move { client.semaphore("a").acquire().await });
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    waiting.abort();
    until("nobody waits", || async { server.waiting("a").await == 0 }).await;
}
