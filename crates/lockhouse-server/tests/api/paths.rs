//! Names in paths, and paths and methods that there are not.

use crate::server::Server;
use hyper::Request;

/// Names and how they are written as one segment of a path.
const NAMES: [(&str, &str); 14] = [
    ("a b", "a%20b"),
    ("a/b", "a%2Fb"),
    ("/", "%2F"),
    ("%2F", "%252F"),
    ("%", "%25"),
    ("é", "%C3%A9"),
    ("🛶", "%F0%9F%9B%B6"),
    ("a?b#c&d=e", "a%3Fb%23c&d=e"),
    ("a+b", "a+b"),
    ("...", "..."),
    ("a\\b", "a%5cb"),
    (".", "%2E"),
    ("..", "%2E%2E"),
    ("job-1::snapshot-2", "job-1::snapshot-2"),
];

#[tokio::test]
async fn a_name_is_one_segment_of_the_path_whatever_is_in_it() {
    let server = Server::start().await;
    for (name, segment) in NAMES {
        let path = format!("/v1/semaphores/{segment}");
        let created = server.put(&path, r#"{"capacity":1}"#).await.is(201).json();
        assert_eq!(created["name"], name);
        assert_eq!(server.get(&path).await.is(200).json()["name"], name);

        let ask = serde_json::json!({"permits": [{"semaphore": name}]}).to_string();
        let granted = server.put(&format!("/v1/requests/{segment}"), &ask).await;
        assert_eq!(granted.is(201).json()["external_id"], name);
        let holders = server.get(&format!("{path}/holders")).await.is(200).json();
        assert_eq!(holders["holders"][0]["external_id"], name);
    }
}

/// A raw dot segment is as good as its percent-encoded form: nobody here resolves it.
#[tokio::test]
async fn dot_names_work_if_the_caller_sends_them() {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/..", r#"{"capacity":1}"#)
        .await
        .is(201);
    let shown = server.get("/v1/semaphores/%2e.").await.is(200).json();
    assert_eq!(shown["name"], "..");
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_malformed() {
    let server = Server::start().await;
    for path in [
        "/v1/semaphores/%FF",
        "/v1/requests/a%C3",
        "/v1/semaphores/%ff/holders",
    ] {
        let problem = server.get(path).await.is_problem(400, "invalid_request");
        assert_eq!(problem["field"], "path", "{path}");
    }
}

/// An id that the caller forgot to encode would be another id.
#[tokio::test]
async fn a_percent_sign_that_begins_no_escape_is_malformed() {
    let server = Server::start().await;
    let guarded = crate::access::Guarded::start().await;
    let beat = r#"{"ttl_ms":1000}"#;
    let define = r#"{"capacity":1}"#;
    for segment in ["%zz", "%", "50%", "%4", "%%41", "a%2", "%-1"] {
        for (method, path, body) in [
            ("PUT", format!("/v1/semaphores/{segment}"), define),
            ("GET", format!("/v1/semaphores/{segment}/holders"), ""),
            ("PUT", format!("/v1/requests/{segment}"), "{}"),
            ("GET", format!("/v1/requests/{segment}"), ""),
            ("DELETE", format!("/v1/requests/{segment}"), ""),
            ("POST", format!("/v1/requests/{segment}/renew"), ""),
            ("PUT", format!("/v1/owners/{segment}"), beat),
            ("PUT", format!("/v1/templates/{segment}*"), define),
            ("DELETE", format!("/v1/tokens/{segment}"), ""),
        ] {
            for answer in [
                server.call(method, &path, body).await,
                guarded.admin(method, &path, body).await,
            ] {
                let problem = answer.is_problem(400, "invalid_request");
                assert_eq!(problem["field"], "path", "{method} {path}");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains("%25"), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_path_is_404() {
    let server = Server::start().await;
    for path in [
        "/v2/semaphores",
        "/v1",
        "/v1/semaphores/",
        "/v1/semaphores/a/b",
        "/V1/semaphores",
    ] {
        server.get(path).await.is_problem(404, "invalid_request");
    }
}

#[tokio::test]
async fn an_unsupported_method_is_405() {
    let server = Server::start().await;
    let calls = [
        ("POST", "/v1/semaphores", "GET,HEAD"),
        ("PATCH", "/v1/semaphores/a", "PUT,GET,HEAD,DELETE"),
        ("GET", "/v1/requests/a/renew", "POST"),
        ("OPTIONS", "/v1/requests/a", "PUT,GET,HEAD,DELETE"),
        ("BREW", "/", "GET,HEAD"),
    ];
    for (method, path, allow) in calls {
        let answer = server.call(method, path, "").await;
        answer.is_problem(405, "invalid_request");
        let mut allowed: Vec<_> = answer.header("allow").unwrap().split(',').collect();
        let mut expected: Vec<_> = allow.split(',').collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":1}"#)
        .await
        .is(201);
    let head = server.call("HEAD", "/v1/semaphores/a", "").await;
    assert!(head.is(200).body.is_empty());
    assert_eq!(head.header("content-type"), Some("application/json"));
    server.call("HEAD", "/v1/semaphores/b", "").await.is(404);
}

/// Whatever the answer is.
#[tokio::test]
async fn the_call_id_header_is_returned_with_the_answer() {
    let server = Server::start().await;
    for (path, status) in [
        ("/v1/semaphores", 200),
        ("/v1/semaphores/unknown", 404),
        ("/no/such/path", 404),
        ("/v1/semaphores?limit=x", 400),
    ] {
        let named = Request::builder()
            .uri(path)
            .header("lockhouse-call-id", "call 7");
        let answer = server.send(named, "").await;
        let answer = answer.is(status);
        assert_eq!(answer.header("lockhouse-call-id"), Some("call 7"), "{path}");
        let unnamed = server.get(path).await;
        assert_eq!(unnamed.header("lockhouse-call-id"), None, "{path}");
    }
}
