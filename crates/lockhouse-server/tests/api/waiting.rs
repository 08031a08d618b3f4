//! Waiting for room over HTTP, and hanging up.

use std::time::{Duration, Instant};

use crate::access::Guarded;
use crate::full::{full, waiter};
use crate::server::until;

#[tokio::test]
async fn a_waiter_is_granted_released_permits() {
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
async fn a_waiter_that_hangs_up_leaves_the_line_and_is_granted_nothing() {
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

/// P11.
#[tokio::test]
async fn a_higher_priority_is_served_first() {
    let server = full().await;
    let ask = |priority: i32| {
        format!(r#"{{"permits":[{{"semaphore":"a"}}],"wait_ms":60000,"priority":{priority}}}"#)
    };
    let (low, high) = (ask(0), ask(1));
    let low = async { server.put("/v1/requests/low", &low).await.is(201).json() };
    let high = async {
        until("the other waits", || async {
            server.waiting("a").await == 1
        })
        .await;
        let granted = server.put("/v1/requests/high", &high).await.is(201).json();
        server.call("DELETE", "/v1/requests/high", "").await.is(200);
        granted
    };
    let releasing = async {
        until("both wait", || async { server.waiting("a").await == 2 }).await;
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
    };
    let (low, high, ()) = tokio::join!(low, high, releasing);
    assert_eq!(high["permits"][0]["fence"], 2);
    assert_eq!(low["permits"][0]["fence"], 3);
}

/// P11: one who asks once is told that others come first.
#[tokio::test]
async fn a_call_without_a_wait_does_not_overtake_waiters() {
    let server = full().await;
    server
        .put("/v1/semaphores/b", r#"{"capacity":1}"#)
        .await
        .is(201);
    let both = r#"{"permits":[{"semaphore":"a"},{"semaphore":"b"}],"wait_ms":60000}"#;
    let waiting = server.put("/v1/requests/both", both);
    let trying = async {
        until("one waits", || async { server.waiting("b").await == 1 }).await;
        let once = r#"{"permits":[{"semaphore":"b"}]}"#;
        let answer = server.put("/v1/requests/y", once).await;
        let problem = answer.is_problem(423, "exhausted");
        assert_eq!(problem["semaphores"][0], "b");
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
    };
    let (granted, ()) = tokio::join!(waiting, trying);
    granted.is(201);
}

/// A caller whose connection breaks asks again and stands where it stood.
#[tokio::test]
async fn a_waiter_that_reconnects_at_once_keeps_its_place() {
    let server = full().await;
    let first = waiter(&server, "first").await;
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    let second = waiter(&server, "second").await;
    until("two wait", || async { server.waiting("a").await == 2 }).await;
    drop(first);
    until("one is gone", || async { server.waiting("a").await == 1 }).await;
    let back = waiter(&server, "first").await;
    until("it is back", || async { server.waiting("a").await == 2 }).await;
    server.call("DELETE", "/v1/requests/x", "").await.is(200);
    until("one is served", || async { server.waiting("a").await == 1 }).await;
    let holders = server.get("/v1/semaphores/a/holders").await.json();
    assert_eq!(holders["holders"][0]["external_id"], "first");
    drop((back, second));
}

#[tokio::test]
async fn the_line_is_listed_in_order() {
    let server = full().await;
    server
        .get("/v1/semaphores/none/waiting")
        .await
        .is_problem(404, "unknown_semaphore");
    let nobody = server.get("/v1/semaphores/a/waiting").await.is(200).json();
    assert_eq!(nobody, serde_json::json!({"waiting": []}));
    let _first = waiter(&server, "y").await;
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    let urgent = r#"{"permits":[{"semaphore":"a"}],"owner":"ann","priority":7,"wait_ms":60000}"#;
    let urgent = server.put("/v1/requests/z", urgent);
    let listing = async {
        until("two wait", || async { server.waiting("a").await == 2 }).await;
        let listed = server.get("/v1/semaphores/a/waiting").await.is(200).json();
        let [first, second] = listed["waiting"].as_array().unwrap().as_slice() else {
            panic!("{listed}");
        };
        assert_eq!(
            (&first["external_id"], &second["external_id"]),
            (&"z".into(), &"y".into())
        );
        assert_eq!(
            (&first["owner"], &first["priority"]),
            (&"ann".into(), &7.into())
        );
        assert_eq!(
            (&second["count"], &second["priority"]),
            (&1.into(), &0.into())
        );
        assert_eq!(second["lacks"], serde_json::json!(["a"]));
        assert!(
            first["since"].as_str() > second["since"].as_str(),
            "{listed}"
        );
        let client = server.client().await;
        assert_eq!(client.waiting("a").await.unwrap().len(), 2);
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
    };
    let (granted, ()) = tokio::join!(urgent, listing);
    granted.is(201);
}

#[tokio::test]
async fn missing_semaphores_of_a_waiter_are_shown_to_callers_that_may_read_them() {
    let guarded = Guarded::start().await;
    for name in ["a", "hidden"] {
        guarded.define(name, 1).await;
        let ask = format!(r#"{{"permits":[{{"semaphore":"{name}"}}]}}"#);
        let path = format!("/v1/requests/holds-{name}");
        guarded.admin("PUT", &path, &ask).await.is(201);
    }
    let both = r#"{"permits":[{"semaphore":"a"},{"semaphore":"hidden"}],"wait_ms":60000}"#;
    let waits = guarded.admin("PUT", "/v1/requests/waits", both);
    let listing = async {
        until("it waits", async || guarded.server.waiting("a").await == 1).await;
        let reader = guarded.token("reader", &["read:a"]).await;
        for (token, lacks) in [(&reader, &["a"][..]), (&guarded.admin, &["a", "hidden"])] {
            let listed = guarded.call(token, "GET", "/v1/semaphores/a/waiting", "");
            let listed = listed.await.is(200).json();
            assert_eq!(listed["waiting"][0]["lacks"], serde_json::json!(lacks));
        }
        for name in ["a", "hidden"] {
            let path = format!("/v1/requests/holds-{name}");
            guarded.admin("DELETE", &path, "").await.is(200);
        }
    };
    let (granted, ()) = tokio::join!(waits, listing);
    granted.is(201);
}
