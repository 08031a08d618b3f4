//! `/v1/tokens` and `/v1/session`.

use hyper::Request;
use lockhouse::{Code, ConnectOptions, Lockhouse, Secret};
use serde_json::{Value, json};

use crate::access::Guarded;

#[tokio::test]
async fn a_secret_is_shown_once_and_tokens_come_by_pages() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "ci", "grants": ["hold:customer/*", "read:*"]}).to_string();
    let made = guarded
        .admin("POST", "/v1/tokens", &body)
        .await
        .is(201)
        .json();
    let secret: Secret = made["secret"].as_str().unwrap().parse().unwrap();
    assert_eq!(made["grants"], json!(["hold:customer/*", "read:*"]));
    guarded
        .call(&secret, "GET", "/v1/semaphores", "")
        .await
        .is(200);
    let again = guarded.admin("POST", "/v1/tokens", &body).await;
    assert_eq!(again.is_problem(409, "idempotency_conflict")["name"], "ci");
    let first = guarded
        .admin("GET", "/v1/tokens?limit=1", "")
        .await
        .is(200)
        .json();
    assert_eq!(first["tokens"][0]["name"], "admin");
    assert!(first["tokens"][0].get("secret").is_none());
    let next = format!("/v1/tokens?cursor={}", first["next"].as_str().unwrap());
    let rest = guarded.admin("GET", &next, "").await.is(200).json();
    assert_eq!(
        (&rest["tokens"][0]["name"], &rest["next"]),
        (&json!("ci"), &Value::Null)
    );
    guarded
        .admin("DELETE", "/v1/tokens/nobody", "")
        .await
        .is_problem(404, "invalid_request");
    let bad = r#"{"name":"x","grants":["own:*"]}"#;
    guarded
        .admin("POST", "/v1/tokens", bad)
        .await
        .is_problem(422, "invalid_request");
}

#[tokio::test]
async fn the_client_makes_lists_and_revokes_tokens() {
    let guarded = Guarded::start().await;
    let options = ConnectOptions::new().token(guarded.admin.clone());
    let client = Lockhouse::connect_with(guarded.server.url(), options)
        .await
        .unwrap();
    let grants = ["hold:*".parse().unwrap()];
    let (token, secret) = client.create_token("ci", &grants, None).await.unwrap();
    assert_eq!(client.tokens().await.unwrap().len(), 2);
    let taken = client.create_token("ci", &grants, None).await.unwrap_err();
    assert_eq!(taken.code(), Code::IdempotencyConflict);
    client.revoke_token(token.name.as_str()).await.unwrap();
    let unknown = client.revoke_token("nobody").await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidRequest);
    let text = format!("{client:?} {secret:?} {unknown}");
    assert!(!text.contains(guarded.admin.reveal()) && !text.contains(secret.reveal()));
}

#[tokio::test]
async fn a_browser_logs_in_with_a_token_and_out_again() {
    let guarded = Guarded::start().await;
    guarded.define("a", 1).await;
    let reader = guarded.token("reader", &["read:*"]).await;
    let login = json!({"token": reader.reveal()}).to_string();
    let post = async |body: &str| guarded.server.call("POST", "/v1/session", body).await;
    let bad = json!({"token": Secret::random().unwrap().reveal()}).to_string();
    post(&bad).await.is_problem(401, "unauthenticated");
    let answer = post(&login).await;
    let cookie = answer.is(204).header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(reader.reveal()));
    let session = cookie.split(';').next().unwrap();
    let with = |method: &str, path: &str| {
        Request::builder()
            .method(method)
            .uri(path)
            .header("cookie", session)
    };
    guarded
        .server
        .send(with("GET", "/v1/semaphores/a"), "")
        .await
        .is(200);
    let put = with("PUT", "/v1/semaphores/b");
    let refused = guarded.server.send(put, r#"{"capacity":1}"#).await;
    refused.is_problem(403, "forbidden");
    // A page of another site may make the browser call, but not read, nor write.
    let foreign = with("GET", "/v1/semaphores/a").header("origin", "http://evil.example");
    guarded
        .server
        .send(foreign, "")
        .await
        .is_problem(403, "forbidden");
    guarded
        .server
        .send(with("DELETE", "/v1/session"), "")
        .await
        .is(204);
    guarded
        .server
        .send(with("GET", "/v1/semaphores/a"), "")
        .await
        .is(401);
}
