//! `/v1/requests/{external_id}`: acquiring, renewing, releasing.

use crate::server::{Answer, Server};
use serde_json::json;

const ASK: &str =
    r#"{"permits":[{"semaphore":"a"},{"semaphore":"b","count":2}],"owner":"ann","ttl_ms":60000}"#;

async fn server() -> Server {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":1}"#)
        .await
        .is(201);
    server
        .put("/v1/semaphores/b", r#"{"capacity":5}"#)
        .await
        .is(201);
    server
}

async fn release(server: &Server, id: &str) -> Answer {
    server
        .call("DELETE", &format!("/v1/requests/{id}"), "")
        .await
}

async fn renew(server: &Server, id: &str, body: &str) -> Answer {
    server
        .call("POST", &format!("/v1/requests/{id}/renew"), body)
        .await
}

#[tokio::test]
async fn permits_are_granted_all_at_once() {
    let server = server().await;
    let granted = server.put("/v1/requests/job-1", ASK).await.is(201).json();
    for (member, value) in [
        ("external_id", json!("job-1")),
        ("state", json!("acquired")),
        ("end_reason", json!(null)),
        ("owner", json!("ann")),
        ("ttl_ms", json!(60000)),
        ("released_at", json!(null)),
        (
            "permits",
            json!([
                {"semaphore": "a", "count": 1, "fence": 1, "slots": null},
                {"semaphore": "b", "count": 2, "fence": 1, "slots": null},
            ]),
        ),
    ] {
        assert_eq!(granted[member], value, "{member}");
    }
    assert!(granted["created_at"].is_string() && granted["expires_at"].is_string());
    assert_eq!(
        server.get("/v1/requests/job-1").await.is(200).json(),
        granted
    );
}

/// P5.
#[tokio::test]
async fn the_same_ask_has_the_same_grant_and_another_is_a_conflict() {
    let server = server().await;
    let granted = server.put("/v1/requests/job-1", ASK).await.is(201).json();
    let turned = r#"{"permits":[{"semaphore":"b","count":2},{"semaphore":"a","count":1}],"owner":"ann","wait_ms":5}"#;
    assert_eq!(
        server
            .put("/v1/requests/job-1", turned)
            .await
            .is(200)
            .json(),
        granted
    );
    let other = server
        .put("/v1/requests/job-1", r#"{"permits":[{"semaphore":"b"}]}"#)
        .await;
    let problem = other.is_problem(409, "idempotency_conflict");
    assert_eq!(problem["external_id"], "job-1");
}

#[tokio::test]
async fn exhausted_names_the_full_semaphores() {
    let server = server().await;
    server
        .put("/v1/requests/x", r#"{"permits":[{"semaphore":"a"}]}"#)
        .await
        .is(201);
    let full = server.put("/v1/requests/y", ASK).await;
    let problem = full.is_problem(423, "exhausted");
    assert_eq!(problem["semaphores"], json!(["a"]));
    assert_eq!(full.header("retry-after"), Some("1"));
    server
        .get("/v1/requests/y")
        .await
        .is_problem(404, "unknown_request");
}

#[tokio::test]
async fn an_ask_above_the_capacity_is_refused() {
    let server = server().await;
    let much = r#"{"permits":[{"semaphore":"a","count":2}],"wait_ms":60000}"#;
    let problem = server
        .put("/v1/requests/x", much)
        .await
        .is_problem(422, "exceeds_capacity");
    assert_eq!(problem["semaphores"], json!(["a"]));
    assert_eq!(
        (&problem["asked"], &problem["capacity"]),
        (&json!(2), &json!(1))
    );
    let unknown = r#"{"permits":[{"semaphore":"c"},{"semaphore":"a"},{"semaphore":"d"}]}"#;
    let problem = server
        .put("/v1/requests/x", unknown)
        .await
        .is_problem(404, "unknown_semaphore");
    assert_eq!(problem["semaphores"], json!(["c", "d"]));
}

#[tokio::test]
async fn a_release_frees_and_a_repeated_one_says_so() {
    let server = server().await;
    server.put("/v1/requests/x", ASK).await.is(201);
    let released = release(&server, "x").await.is(200).json();
    assert_eq!(released["released"], true);
    assert_eq!(released["state"], "released");
    assert_eq!(released["end_reason"], "released");
    assert!(released["released_at"].is_string());
    assert_eq!(server.get("/v1/semaphores/b").await.json()["in_use"], 0);

    let again = release(&server, "x").await.is(200).json();
    assert_eq!(again["released"], false);
    assert_eq!(again["released_at"], released["released_at"]);
    release(&server, "y")
        .await
        .is_problem(404, "unknown_request");
}

/// P4.
#[tokio::test]
async fn the_end_of_a_request_is_final() {
    let server = server().await;
    server.put("/v1/requests/x", ASK).await.is(201);
    release(&server, "x").await.is(200);
    for answer in [
        server.put("/v1/requests/x", ASK).await,
        renew(&server, "x", "{}").await,
    ] {
        let problem = answer.is_problem(410, "request_ended");
        assert_eq!(problem["end_reason"], "released");
        assert_eq!(problem["external_id"], "x");
    }
    renew(&server, "y", "")
        .await
        .is_problem(404, "unknown_request");
}

#[tokio::test]
async fn a_renewal_pushes_the_expiry() {
    let server = server().await;
    let granted = server.put("/v1/requests/x", ASK).await.is(201).json();
    for (body, ttl_ms) in [
        (r#"{"ttl_ms":120000}"#, 120_000),
        ("", 120_000),
        ("{}", 120_000),
    ] {
        let renewed = renew(&server, "x", body).await.is(200).json();
        assert_eq!(renewed["ttl_ms"], ttl_ms, "{body}");
        assert!(renewed["expires_at"].as_str() > granted["expires_at"].as_str());
    }
}

#[tokio::test]
async fn without_a_ttl_there_is_nothing_to_renew() {
    let server = server().await;
    let granted = server
        .put("/v1/requests/x", r#"{"permits":[{"semaphore":"b"}]}"#)
        .await;
    let granted = granted.is(201).json();
    assert_eq!(
        (&granted["ttl_ms"], &granted["expires_at"]),
        (&json!(null), &json!(null))
    );
    let problem = renew(&server, "x", "")
        .await
        .is_problem(422, "invalid_request");
    assert_eq!(problem["field"], "ttl_ms");
    renew(&server, "x", r#"{"ttl_ms":1000}"#).await.is(200);
}

#[tokio::test]
async fn an_expired_request_has_ended() {
    let server = server().await;
    let brief = r#"{"permits":[{"semaphore":"a"}],"ttl_ms":2000}"#;
    server.put("/v1/requests/x", brief).await.is(201);
    crate::server::until("the time has passed", || async {
        let answer = renew(&server, "x", r#"{"ttl_ms":1}"#).await;
        answer.status == 410 && answer.json()["end_reason"] == "expired"
    })
    .await;
    server.put("/v1/requests/y", brief).await.is(201);
}
