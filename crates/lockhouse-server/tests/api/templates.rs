//! `/v1/templates`: setting, listing, deleting, and what templates create.

use serde_json::json;

use crate::server::Server;

const CUSTOMERS: &str = "/v1/templates/customer%2F*";

#[tokio::test]
async fn a_template_is_created_then_changed_then_deleted() {
    let server = Server::start().await;
    let created = server.put(CUSTOMERS, r#"{"capacity":2}"#).await;
    let created = created.is(201).json();
    for (member, value) in [
        ("pattern", json!("customer/*")),
        ("capacity", json!(2)),
        ("idle_ms", json!(604_800_000)),
    ] {
        assert_eq!(created[member], value, "{member}");
    }
    assert!(created["created_at"].as_str().unwrap().ends_with('Z'));
    let changed = server
        .put(
            "/v1/templates/customer%2F%2A",
            r#"{"capacity":3,"idle_ms":1000}"#,
        )
        .await;
    let changed = changed.is(200).json();
    assert_eq!(
        (&changed["capacity"], &changed["idle_ms"]),
        (&json!(3), &json!(1000))
    );
    let listed = server.get("/v1/templates").await.is(200).json();
    assert_eq!(listed, json!({"templates": [changed], "next": null}));
    server.call("DELETE", CUSTOMERS, "").await.is(204);
    let gone = server.call("DELETE", CUSTOMERS, "").await;
    assert_eq!(gone.is(404).json()["code"], "invalid_request");
    let listed = server.get("/v1/templates").await.is(200).json();
    assert_eq!(listed["templates"], json!([]));
}

#[tokio::test]
async fn templates_are_listed_in_pieces() {
    let server = Server::start().await;
    for letter in ["a", "b", "c"] {
        let path = format!("/v1/templates/{letter}*");
        server.put(&path, r#"{"capacity":1}"#).await.is(201);
    }
    let first = server.get("/v1/templates?limit=2").await.is(200).json();
    assert_eq!(first["templates"].as_array().unwrap().len(), 2);
    let cursor = first["next"].as_str().unwrap();
    let rest = server
        .get(&format!("/v1/templates?limit=2&cursor={cursor}"))
        .await;
    let rest = rest.is(200).json();
    assert_eq!(rest["templates"][0]["pattern"], "c*");
    assert_eq!(rest["next"], json!(null));
}

#[tokio::test]
async fn an_acquire_creates_the_semaphore_and_says_which_template_did() {
    let server = Server::start().await;
    server.put(CUSTOMERS, r#"{"capacity":2}"#).await.is(201);
    server.get("/v1/semaphores/customer%2Facme").await.is(404);
    let ask = r#"{"permits":[{"semaphore":"customer/acme"}]}"#;
    server.put("/v1/requests/x", ask).await.is(201);
    let path = "/v1/semaphores/customer%2Facme";
    let made = server.get(path).await.is(200).json();
    assert_eq!(
        (&made["template"], &made["resized"], &made["capacity"]),
        (&json!("customer/*"), &json!(false), &json!(2))
    );
    server.put(path, r#"{"capacity":5}"#).await.is(200);
    server.put(CUSTOMERS, r#"{"capacity":1}"#).await.is(200);
    let resized = server.get(path).await.is(200).json();
    assert_eq!(
        (&resized["resized"], &resized["capacity"]),
        (&json!(true), &json!(5))
    );
    server
        .put("/v1/semaphores/plain", r#"{"capacity":1}"#)
        .await
        .is(201);
    let plain = server.get("/v1/semaphores/plain").await.json();
    assert_eq!(
        (&plain["template"], &plain["resized"]),
        (&json!(null), &json!(false))
    );
}

#[tokio::test]
async fn a_malformed_template_is_refused() {
    let server = Server::start().await;
    for (path, body, field) in [
        ("/v1/templates/customer", r#"{"capacity":2}"#, "pattern"),
        ("/v1/templates/a*b*", r#"{"capacity":2}"#, "pattern"),
        ("/v1/templates/lockhouse:*", r#"{"capacity":2}"#, "pattern"),
        (CUSTOMERS, r#"{"capacity":-1}"#, "capacity"),
        (CUSTOMERS, r#"{"capacity":2,"idle_ms":0}"#, "idle_ms"),
    ] {
        let refused = server.put(path, body).await;
        let problem = refused.is(422).json();
        assert_eq!(
            (&problem["code"], &problem["field"]),
            (&json!("invalid_request"), &json!(field))
        );
    }
    for (path, body) in [
        (CUSTOMERS, r#"{"capacity":2,"ttl_ms":1}"#),
        (CUSTOMERS, r#"{}"#),
        ("/v1/templates/a*?x=1", r#"{"capacity":2}"#),
    ] {
        server.put(path, body).await.is(400);
    }
}
