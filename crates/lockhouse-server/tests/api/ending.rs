//! `DELETE /v1/requests/{external_id}?force=true`: ending over the holder's head.

use crate::server::{Answer, Server};
use serde_json::json;

async fn server() -> Server {
    let server = Server::start().await;
    server.lockhouse.define("a", 1).await.unwrap();
    let ask = r#"{"permits":[{"semaphore":"a"}],"owner":"ann","ttl_ms":60000}"#;
    server.put("/v1/requests/x", ask).await.is(201);
    server
}

async fn delete(server: &Server, query: &str) -> Answer {
    let path = format!("/v1/requests/x{query}");
    server.call("DELETE", &path, "").await
}

/// P3.
#[tokio::test]
async fn a_forced_end_is_marked_with_its_caller() {
    let server = server().await;
    let ended = delete(&server, "?force=true&by=bob%40ops").await;
    let ended = ended.is(200).json();
    for (member, value) in [
        ("released", json!(true)),
        ("state", json!("released")),
        ("end_reason", json!("forced")),
        ("ended_by", json!("bob@ops")),
        ("owner", json!("ann")),
    ] {
        assert_eq!(ended[member], value, "{member}");
    }
    assert_eq!(server.get("/v1/semaphores/a").await.json()["in_use"], 0);
    let renewed = server.call("POST", "/v1/requests/x/renew", "").await;
    let problem = renewed.is_problem(410, "request_ended");
    assert_eq!(problem["end_reason"], "forced", "its holder is told");

    let again = delete(&server, "?force=true&by=cyd").await.is(200).json();
    assert_eq!(
        (&again["released"], &again["ended_by"]),
        (&json!(false), &json!("bob@ops"))
    );
}

#[tokio::test]
async fn ended_by_defaults_to_the_address_of_the_caller() {
    for (query, reason) in [("", "released"), ("?force=true", "forced")] {
        let server = server().await;
        let ended = delete(&server, query).await.is(200).json();
        assert_eq!(ended["end_reason"], reason);
        assert_eq!(ended["ended_by"], "127.0.0.1");
    }
}

/// P3.
#[tokio::test]
async fn a_release_by_a_stranger_is_marked_with_its_caller() {
    let server = server().await;
    let ended = delete(&server, "?by=bob%40ops").await.is(200).json();
    assert_eq!(ended["end_reason"], "released");
    assert_eq!(ended["ended_by"], "bob@ops");
    assert_eq!(
        server.get("/v1/requests/x").await.json()["ended_by"],
        "bob@ops"
    );
}

#[tokio::test]
async fn delete_without_force_is_a_release() {
    let server = server().await;
    let ended = delete(&server, "?force=false").await.is(200).json();
    assert_eq!(ended["end_reason"], "released");
    let forced = delete(&server, "?force=true").await.is(200).json();
    assert_eq!(forced["end_reason"], "released", "it had ended before");
}

#[tokio::test]
async fn an_unreadable_check_ends_nothing() {
    let server = server().await;
    for (query, status, field) in [
        ("?force=yes", 400, "force"),
        ("?force=", 400, "force"),
        ("?force=true&force=true", 400, "force"),
        ("?forced=true", 400, "forced"),
        ("?force=true&x=1", 400, "x"),
        ("?by=", 422, "by"),
        ("?force=true&by=", 422, "by"),
        ("?force=true&by=%20bob", 422, "by"),
    ] {
        let problem = delete(&server, query).await;
        let problem = problem.is_problem(status, "invalid_request");
        assert_eq!(problem["field"], field, "{query}");
    }
    let x = server.get("/v1/requests/x").await.json();
    assert_eq!(x["state"], "acquired");
}
