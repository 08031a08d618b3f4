//! Tokens: who is let in, to what, and until when.

use std::time::{Duration, Instant};

use hyper::Request;
use lockhouse::{Code, ConnectOptions, Lockhouse, Secret, TokenGrant};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::contract::Contract;
use crate::server::{Answer, Server, until};

/// A server with an administrator's token.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    pub(crate) admin: Secret,
}

impl Guarded {
    pub(crate) async fn start() -> Self {
        let server = Server::start().await;
        let admin = made(&server.lockhouse, "admin", &["admin:*"]).await;
        Self { server, admin }
    }

    pub(crate) async fn token(&self, name: &str, grants: &[&str]) -> Secret {
        made(&self.server.lockhouse, name, grants).await
    }

    pub(crate) async fn call(
        &self,
        token: &Secret,
        method: &str,
        path: &str,
        body: &str,
    ) -> Answer {
        call(&self.server, token.reveal(), method, path, body).await
    }

    /// As the administrator.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call(&self.admin, method, path, body).await
    }

    pub(crate) async fn define(&self, name: &str, capacity: u32) {
        let body = json!({ "capacity": capacity }).to_string();
        let name = name.replace('/', "%2F");
        self.admin("PUT", &format!("/v1/semaphores/{name}"), &body)
            .await
            .is(201);
    }
}

pub(crate) async fn made(lockhouse: &Lockhouse, name: &str, grants: &[&str]) -> Secret {
    let grants: Vec<TokenGrant> = grants.iter().map(|grant| grant.parse().unwrap()).collect();
    let made = lockhouse.create_token(name, &grants, None).await;
    made.unwrap().1
}

async fn call(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"));
    server.send(request, body).await
}

/// Whichever of the two is good: a proxy may have checked the other.
#[tokio::test]
async fn two_authorization_headers_are_refused() {
    let guarded = Guarded::start().await;
    let good = format!("Bearer {}", guarded.admin.reveal());
    for two in [
        [&*good, "Bearer lh_bad"],
        ["Bearer lh_bad", &good],
        [&good, &good],
    ] {
        let mut request = Request::get("/v1/tokens");
        for one in two {
            request = request.header("authorization", one);
        }
        guarded.server.send(request, "").await.is(401);
    }
    guarded.admin("GET", "/v1/tokens", "").await.is(200);
}

fn ask(semaphore: &str) -> String {
    json!({"permits": [{"semaphore": semaphore}], "ttl_ms": 60_000}).to_string()
}

#[tokio::test]
async fn a_server_on_loopback_is_open_until_there_is_a_token() {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":1}"#)
        .await
        .is(201);
    let admin = made(&server.lockhouse, "admin", &["admin:*"]).await;
    until("a token is asked for", async || {
        server.get("/v1/semaphores/a").await.status == 401
    })
    .await;
    let refused = server.get("/v1/semaphores/a").await;
    let problem = refused.is_problem(401, "unauthenticated");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("Authorization: Bearer TOKEN")
    );
    call(&server, admin.reveal(), "GET", "/v1/semaphores/a", "")
        .await
        .is(200);
    // And it stays so when the last one is revoked.
    server.lockhouse.revoke_token("admin").await.unwrap();
    until("the token is refused", async || {
        call(&server, admin.reveal(), "GET", "/v1/semaphores/a", "")
            .await
            .status
            == 401
    })
    .await;
    server.get("/v1/semaphores/a").await.is(401);
}

#[tokio::test]
async fn public_paths_need_no_token() {
    let guarded = Guarded::start().await;
    for path in ["/", "/healthz", "/readyz", "/openapi.json"] {
        guarded.server.get(path).await.is(200);
    }
    for path in ["/metrics", "/v1/semaphores", "/v1/requests", "/v1/tokens"] {
        guarded
            .server
            .get(path)
            .await
            .is_problem(401, "unauthenticated");
    }
    guarded.server.get("/v1/nothing").await.is(404);
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_not_repeated() {
    let guarded = Guarded::start().await;
    let other = Secret::random().unwrap();
    for token in [other.reveal(), "lh_short", "s3cr3t-of-another-program", ""] {
        let answer = call(&guarded.server, token, "GET", "/v1/semaphores", "").await;
        answer.is_problem(401, "unauthenticated");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(token.is_empty() || !text.contains(token), "{text}");
    }
    let basic = Request::builder()
        .uri("/v1/semaphores")
        .header("authorization", "Basic YTpi");
    guarded
        .server
        .send(basic, "")
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn each_verb_takes_its_grant_and_the_refusal_names_it() {
    let guarded = Guarded::start().await;
    guarded.define("a/1", 5).await;
    guarded.define("b", 5).await;
    let none = guarded.token("none", &["read:nothing"]).await;
    let acquire = json!({"permits": [{"semaphore": "a/1"}, {"semaphore": "b"}]}).to_string();
    for (method, path, body, grant) in [
        (
            "PUT",
            "/v1/semaphores/a%2F1",
            r#"{"capacity":7}"#,
            "define:a/1",
        ),
        ("DELETE", "/v1/semaphores/b", "", "define:b"),
        ("GET", "/v1/semaphores/b", "", "read:b"),
        ("GET", "/v1/semaphores/b/holders", "", "read:b"),
        ("GET", "/v1/semaphores/b/history", "", "read:b"),
        ("GET", "/v1/semaphores/b/waiting", "", "read:b"),
        ("PUT", "/v1/requests/x", &acquire, "hold:a/1"),
        ("PUT", "/v1/owners/o", r#"{"ttl_ms":1000}"#, "hold:PREFIX"),
        ("GET", "/v1/tokens", "", "admin:*"),
        (
            "POST",
            "/v1/tokens",
            r#"{"name":"x","grants":["admin:*"]}"#,
            "admin:*",
        ),
        ("DELETE", "/v1/tokens/admin", "", "admin:*"),
        ("GET", "/metrics", "", "read:*"),
    ] {
        let answer = guarded.call(&none, method, path, body).await;
        let problem = answer.is_problem(403, "forbidden");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(grant), "{method} {path}: {detail}");
    }
    let some = guarded.token("some", &["hold:a/*"]).await;
    let refused = guarded.call(&some, "PUT", "/v1/requests/x", &acquire).await;
    let problem = refused.is_problem(403, "forbidden");
    assert!(
        problem["detail"].as_str().unwrap().contains("hold:b"),
        "{problem}"
    );
    let all = guarded.token("all", &["hold:a/*", "hold:b"]).await;
    guarded
        .call(&all, "PUT", "/v1/requests/x", &acquire)
        .await
        .is(201);
}

#[tokio::test]
async fn listings_show_what_read_covers_and_ones_own() {
    let guarded = Guarded::start().await;
    for name in ["a", "b1", "b2", "c"] {
        guarded.define(name, 5).await;
    }
    let reader = guarded.token("reader", &["read:b*", "hold:c"]).await;
    let names = async |token: &Secret, query: &str| -> Vec<String> {
        let path = format!("/v1/semaphores{query}");
        let listed = guarded.call(token, "GET", &path, "").await.is(200).json();
        let listed = listed["semaphores"].as_array().unwrap().iter();
        listed
            .map(|semaphore| semaphore["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&reader, "").await, ["b1", "b2"]);
    assert_eq!(names(&reader, "?prefix=b2").await, ["b2"]);
    assert_eq!(names(&reader, "?prefix=a").await, [""; 0]);
    assert_eq!(names(&reader, "?limit=1").await, ["b1"]);
    assert_eq!(names(&guarded.admin, "").await.len(), 4);

    let both = json!({"permits": [{"semaphore": "a"}, {"semaphore": "b1"}], "owner": "ann"});
    guarded
        .admin("PUT", "/v1/requests/both", &both.to_string())
        .await
        .is(201);
    guarded
        .admin("PUT", "/v1/requests/hidden", &ask("a"))
        .await
        .is(201);
    guarded
        .call(&reader, "PUT", "/v1/requests/own", &ask("c"))
        .await
        .is(201);
    let listed = guarded
        .call(&reader, "GET", "/v1/requests", "")
        .await
        .is(200)
        .json();
    let mut seen: Vec<Value> = listed["requests"].as_array().unwrap().clone();
    seen.sort_by_key(|request| request["external_id"].to_string());
    let ids: Vec<_> = seen.iter().map(|request| &request["external_id"]).collect();
    assert_eq!(ids, ["both", "own"]);
    let permits = seen[0]["permits"].as_array().unwrap();
    assert_eq!(permits.len(), 1, "{permits:?}");
    assert_eq!(
        (&permits[0]["semaphore"], &seen[0]["token"]),
        (&json!("b1"), &json!("admin"))
    );
    assert_eq!(seen[1]["owner"], Value::Null);
    guarded
        .call(&reader, "GET", "/v1/requests/both", "")
        .await
        .is(200);
    guarded
        .call(&reader, "GET", "/v1/requests/hidden", "")
        .await
        .is_problem(403, "forbidden");
    guarded
        .call(&reader, "GET", "/v1/requests/own", "")
        .await
        .is(200);
    let of_ann = guarded
        .call(&reader, "GET", "/v1/requests?owner=ann", "")
        .await
        .is(200)
        .json();
    assert_eq!(of_ann["requests"].as_array().unwrap().len(), 1);
    // Only a caller that may read a semaphore learns whether it exists.
    for (name, status) in [("a", 200), ("nonesuch", 200), ("b1", 200), ("b3", 404)] {
        let path = format!("/v1/requests?semaphore={name}");
        let answer = guarded.call(&reader, "GET", &path, "").await;
        answer.is(status);
    }
    // So is who holds it: "both" holds "a" too.
    for (name, many) in [("a", 0), ("b1", 1), ("c", 1)] {
        let path = format!("/v1/requests?semaphore={name}");
        let listed = guarded.call(&reader, "GET", &path, "").await.json();
        let requests = listed["requests"].as_array().unwrap();
        assert_eq!(requests.len(), many, "{name}: {requests:?}");
    }
}

#[tokio::test]
async fn ending_another_tokens_request_needs_force() {
    let guarded = Guarded::start().await;
    guarded.define("s", 9).await;
    let (ci, web) = (
        guarded.token("ci", &["hold:*"]).await,
        guarded.token("web", &["hold:*"]).await,
    );
    let operator = guarded.token("operator", &["force:s"]).await;
    let mut body: Value = serde_json::from_str(&ask("s")).unwrap();
    body["owner"] = "job".into();
    let body = body.to_string();
    for id in ["r1", "r2", "r3"] {
        let path = format!("/v1/requests/{id}");
        guarded.call(&ci, "PUT", &path, &body).await.is(201);
    }
    // P5 is each token's own.
    guarded
        .call(&ci, "PUT", "/v1/requests/r1", &body)
        .await
        .is(200);
    let other = guarded.call(&web, "PUT", "/v1/requests/r1", &body).await;
    other.is_problem(409, "idempotency_conflict");
    for (method, path) in [
        ("POST", "/v1/requests/r1/renew"),
        ("DELETE", "/v1/requests/r1"),
        ("DELETE", "/v1/requests/r1?force=true"),
        ("DELETE", "/v1/owners/job"),
    ] {
        let problem = guarded
            .call(&web, method, path, "")
            .await
            .is_problem(403, "forbidden");
        assert!(
            problem["detail"].as_str().unwrap().contains("force"),
            "{problem}"
        );
    }
    let beat = guarded
        .call(&ci, "PUT", "/v1/owners/job", r#"{"ttl_ms":60000}"#)
        .await;
    assert_eq!(beat.is(200).json()["owner"], "job");
    let beat = guarded
        .call(&web, "PUT", "/v1/owners/job", r#"{"ttl_ms":60000}"#)
        .await;
    beat.is_problem(403, "forbidden");
    guarded
        .call(&ci, "POST", "/v1/requests/r1/renew", "")
        .await
        .is(200);
    guarded
        .call(&operator, "POST", "/v1/requests/r1/renew", "")
        .await
        .is(200);
    let forced = guarded
        .call(&operator, "DELETE", "/v1/requests/r1?force=true", "")
        .await;
    let forced = forced.is(200).json();
    assert_eq!(
        (&forced["end_reason"], &forced["ended_by"]),
        (&json!("forced"), &json!("operator"))
    );
    let released = guarded
        .call(&ci, "DELETE", "/v1/requests/r2", "")
        .await
        .is(200)
        .json();
    assert_eq!(released["ended_by"], "ci");
    let goodbye = guarded
        .admin("DELETE", "/v1/owners/job", "")
        .await
        .is(200)
        .json();
    assert_eq!(goodbye["released"], 1);
    // Without a token, nobody is left to have made it.
    let free = guarded
        .server
        .lockhouse
        .request_with_id("free")
        .permits("s", 1);
    let free = free.ttl(Duration::from_secs(60)).acquire().await.unwrap();
    guarded
        .call(&ci, "DELETE", "/v1/requests/free", "")
        .await
        .is_problem(403, "forbidden");
    free.release().await.unwrap();
}

/// Within 10 s, on connections that are open, and for calls that wait.
#[tokio::test]
async fn a_revoked_token_is_refused_soon_and_its_waiter_leaves_the_line() {
    let guarded = Guarded::start().await;
    guarded.define("s", 1).await;
    let ci = guarded.token("ci", &["hold:*", "read:*"]).await;
    let options = ConnectOptions::new().token(ci.clone());
    let client = Lockhouse::connect_with(guarded.server.url(), options)
        .await
        .unwrap();
    let held = client.semaphore("s").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.semaphore("s").acquire().await }
    });
    until("one waits", async || guarded.server.waiting("s").await == 1).await;
    guarded.admin("DELETE", "/v1/tokens/ci", "").await.is(204);
    let revoked = Instant::now();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    assert!(
        revoked.elapsed() < Duration::from_secs(10),
        "{:?}",
        revoked.elapsed()
    );
    assert_eq!(guarded.server.waiting("s").await, 0);
    let refused = client.status("s").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    // Its requests go on until their TTL ends them.
    assert_eq!(
        guarded
            .server
            .lockhouse
            .status("s")
            .await
            .unwrap()
            .semaphore
            .in_use,
        1
    );
    drop(held);
}

#[tokio::test]
async fn failures_are_limited_but_good_tokens_of_the_same_address_are_not() {
    let guarded = Guarded::start().await;
    let other = Secret::random().unwrap();
    let mut limited = 0;
    for at in 0..60 {
        let path = ["/v1/semaphores", "/metrics"][at % 2];
        let answer = guarded.call(&other, "GET", path, "").await;
        Contract::read().holds("GET", path, &answer);
        match answer.status.as_u16() {
            401 => {}
            _ => {
                let problem = answer.is_problem(503, "overloaded");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains("without a good token"), "{detail}");
                assert_eq!(answer.header("retry-after"), Some("1"));
                limited += 1;
            }
        }
    }
    assert!(limited > 0);
    guarded.admin("GET", "/v1/semaphores", "").await.is(200);
}

/// A program that puts the router into its own service has other paths, and the same checks.
#[tokio::test]
async fn a_nested_router_asks_for_the_same_grants() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    let reader = made(&lockhouse, "reader", &["read:a"]).await;
    lockhouse.define("a", 1).await.unwrap();
    let nested = axum::Router::new().nest("/locks", lockhouse_server::router(lockhouse));
    for (path, token, status) in [
        ("/locks/v1/semaphores/a", None, 401),
        ("/locks/v1/semaphores/a", Some(&reader), 200),
        ("/locks/v1/semaphores/b", Some(&reader), 403),
        ("/locks/v1/tokens", Some(&reader), 403),
        ("/locks/healthz", None, 200),
    ] {
        let mut request = Request::builder().uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = nested.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }
}
