//! `/v1/owners/{owner}`: heartbeats and goodbyes.

use crate::server::{Answer, Server, until};
use lockhouse::Timestamp;
use serde_json::json;

/// A server with room for 3 on "a", of which ann holds 2 and bob 1, without a time to live.
async fn server() -> Server {
    let server = Server::start().await;
    server.lockhouse.define("a", 3).await.unwrap();
    for (id, owner) in [("x", "ann"), ("y", "ann"), ("z", "bob")] {
        let ask = format!(r#"{{"permits":[{{"semaphore":"a"}}],"owner":"{owner}"}}"#);
        server
            .put(&format!("/v1/requests/{id}"), &ask)
            .await
            .is(201);
    }
    server
}

async fn beat(server: &Server, owner: &str, ttl_ms: i64) -> Answer {
    let body = json!({"ttl_ms": ttl_ms}).to_string();
    server.put(&format!("/v1/owners/{owner}"), &body).await
}

async fn goodbye(server: &Server, owner: &str) -> Answer {
    let path = format!("/v1/owners/{owner}");
    server.call("DELETE", &path, "").await
}

#[tokio::test]
async fn a_heartbeat_says_until_when_it_is_good() {
    let server = server().await;
    let heard = beat(&server, "ann", 30_000).await.is(200).json();
    assert_eq!(
        (&heard["owner"], &heard["ttl_ms"]),
        (&json!("ann"), &json!(30_000))
    );
    let expires_at = |answer: &serde_json::Value| -> Timestamp {
        answer["expires_at"].as_str().unwrap().parse().unwrap()
    };
    let again = beat(&server, "ann", 60_000).await.is(200).json();
    assert!(expires_at(&again) > expires_at(&heard));
    assert_eq!([&heard["began"], &again["began"]], [true, false]);
    assert_eq!(again.as_object().unwrap().len(), 4, "{again}");
}

/// P9: however often it is asked.
#[tokio::test]
async fn a_session_that_must_exist_is_not_begun() {
    let server = server().await;
    let body = r#"{"ttl_ms":30000,"must_exist":true}"#;
    for _ in 0..2 {
        let refused = server.put("/v1/owners/ann", body).await;
        let problem = refused.is_problem(410, "session_ended");
        assert_eq!(problem["owner"], "ann");
    }
    beat(&server, "ann", 60_000).await.is(200);
    let heard = server.put("/v1/owners/ann", body).await.is(200).json();
    assert_eq!(heard["began"], false);
    assert_eq!(heard["ttl_ms"], 30_000);
}

/// P3.
#[tokio::test]
async fn a_goodbye_releases_all_that_the_owner_holds() {
    let server = server().await;
    beat(&server, "ann", 30_000).await.is(200);
    let gone = goodbye(&server, "ann").await.is(200).json();
    assert_eq!(gone, json!({"owner": "ann", "released": 2}));
    let x = server.get("/v1/requests/x").await.json();
    assert_eq!(x["end_reason"], "released");
    assert_eq!(server.get("/v1/semaphores/a").await.json()["in_use"], 1);

    let again = goodbye(&server, "ann").await.is(200).json();
    assert_eq!(again["released"], 0);
    assert_eq!(
        goodbye(&server, "bob").await.json()["released"],
        1,
        "without a session too"
    );
}

/// P10: at once where somebody wants them.
#[tokio::test]
async fn silence_of_an_owner_ends_its_requests_only() {
    let server = server().await;
    beat(&server, "ann", 20).await.is(200);
    beat(&server, "bob", 60_000).await.is(200);
    let ask = r#"{"permits":[{"semaphore":"a","count":2}],"wait_ms":10000}"#;
    server.put("/v1/requests/w", ask).await.is(201);
    for (id, reason) in [
        ("x", json!("owner_dead")),
        ("y", json!("owner_dead")),
        ("z", json!(null)),
    ] {
        let request = server.get(&format!("/v1/requests/{id}")).await.json();
        assert_eq!(request["end_reason"], reason, "{id}");
        assert_eq!(request["ended_by"], json!(null), "{id}");
    }
}

#[tokio::test]
async fn a_session_keeps_what_is_acquired_later_too() {
    let server = server().await;
    beat(&server, "cyd", 30).await.is(200);
    let resized = r#"{"capacity":4}"#;
    server.put("/v1/semaphores/a", resized).await.is(200);
    let ask = r#"{"permits":[{"semaphore":"a"}],"owner":"cyd"}"#;
    server.put("/v1/requests/later", ask).await.is(201);
    until("it is freed", || async {
        let other = r#"{"permits":[{"semaphore":"a"}]}"#;
        server.put("/v1/requests/other", other).await.status == 201
    })
    .await;
    let later = server.get("/v1/requests/later").await.json();
    assert_eq!(later["end_reason"], "owner_dead");
}

#[tokio::test]
async fn an_invalid_call_names_its_field() {
    let server = Server::start().await;
    for (path, body, status, field) in [
        ("/v1/owners/ann", "{}", 400, "ttl_ms"),
        ("/v1/owners/ann", "", 400, "body"),
        ("/v1/owners/ann", r#"{"ttl_ms":"30s"}"#, 400, "ttl_ms"),
        ("/v1/owners/ann", r#"{"ttl_ms":1,"ttl":1}"#, 400, "ttl"),
        ("/v1/owners/ann", r#"{"ttl_ms":0}"#, 422, "ttl_ms"),
        ("/v1/owners/ann", r#"{"ttl_ms":31622400001}"#, 422, "ttl_ms"),
        ("/v1/owners/%20ann", r#"{"ttl_ms":1}"#, 422, "owner"),
    ] {
        let answer = server.put(path, body).await;
        let problem = answer.is_problem(status, "invalid_request");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(field), "{path} {body}: {detail}");
    }
    let answer = server.call("DELETE", "/v1/owners/%0A", "").await;
    assert_eq!(answer.is_problem(422, "invalid_request")["field"], "owner");
}
