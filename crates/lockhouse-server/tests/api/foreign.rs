//! A server without tokens on a loopback address is open to local programs only: the checks of Host,
//! Origin and Content-Type, by callers who write every byte themselves. `browser.rs` has the same
//! with a real browser.

use std::time::Duration;

use crate::server::Server;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use lockhouse::Lockhouse;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

const MINUTE: Duration = Duration::from_secs(60);

/// A semaphore `a` of one permit, which the request `x` holds.
async fn held() -> Server {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    lockhouse.define("a", 1).await.unwrap();
    let ask = lockhouse.request_with_id("x").permits("a", 1).ttl(MINUTE);
    ask.acquire().await.unwrap().forget();
    Server::on(lockhouse).await
}

/// The answer to exactly these bytes: the status and the body. `{port}` stands for the server's.
async fn answer(server: &Server, text: &str) -> (u16, String) {
    let text = text.replace("{port}", &server.address.port().to_string());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// The answer to `DELETE …?force=true` with these lines in its head.
async fn forced(server: &Server, lines: &str) -> (u16, String) {
    let line = "DELETE /v1/requests/x?force=true HTTP/1.1";
    answer(
        server,
        &format!("{line}\r\n{lines}connection: close\r\n\r\n"),
    )
    .await
}

#[track_caller]
fn is_problem((status, body): &(u16, String), expected: u16, code: &str, why: &str) -> Value {
    assert_eq!(*status, expected, "{why:?}: {body}");
    let problem: Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["status"], expected, "{why:?}");
    assert_eq!(problem["code"], code, "{why:?}");
    problem
}

/// That nothing was done to `x`.
async fn is_held(server: &Server) {
    let semaphore = server.lockhouse.status("a").await.unwrap().semaphore;
    assert_eq!(semaphore.in_use, 1);
}

/// So a page whose name was made to resolve to 127.0.0.1 (DNS rebinding) gets nowhere.
#[tokio::test]
async fn a_foreign_host_is_refused_on_loopback() {
    let server = held().await;
    for host in [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example:{port}",
        "localhost.",
        "notlocalhost",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "128.0.0.1",
        "0.0.0.0:{port}",
        "192.168.1.7:{port}",
        "[::]",
        "[::2]:{port}",
        "[fe80::1]",
        "[::1%25lo]",
        "[::ffff:192.168.1.7]",
        "a",
    ] {
        let answer = forced(&server, &format!("host: {host}\r\n")).await;
        let problem = is_problem(&answer, 421, "invalid_request", host);
        assert_eq!(problem["field"], "host", "{host}");
    }
    is_held(&server).await;
}

#[tokio::test]
async fn every_loopback_name_is_an_accepted_host() {
    let server = held().await;
    for host in [
        "localhost",
        "LocalHost:{port}",
        "127.0.0.1:{port}",
        "127.0.0.1",
        "127.9.8.7:1",
        "[::1]",
        "[::1]:{port}",
        "[0:0:0:0:0:0:0:1]:{port}",
        "[::ffff:127.0.0.1]",
    ] {
        let lines = format!("host: {host}\r\norigin: http://{host}\r\n");
        let head = format!("GET /v1/requests/x HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
        let (status, body) = answer(&server, &head).await;
        assert_eq!(status, 200, "{host}: {body}");
    }
}

#[tokio::test]
async fn a_host_that_is_missing_repeated_or_malformed_is_refused() {
    let server = held().await;
    for lines in [
        "",
        "host:\r\n",
        "host: localhost\r\nhost: localhost\r\n",
        "host: localhost\r\nhost: evil.example\r\n",
        "host: localhost, evil.example\r\n",
        "host: evil.example@localhost\r\n",
        "host: localhost@evil.example\r\n",
        "host: http://localhost\r\n",
        "host: localhost/evil.example\r\n",
        "host: [::1\r\n",
        "host: ::1\r\n",
    ] {
        let answer = forced(&server, lines).await;
        let problem = is_problem(&answer, 400, "invalid_request", lines);
        assert_eq!(problem["field"], "host", "{lines}");
    }
    let old = "DELETE /v1/requests/x HTTP/1.0\r\n\r\n";
    is_problem(&answer(&server, old).await, 400, "invalid_request", old);
    is_held(&server).await;
}

#[tokio::test]
async fn the_target_of_a_request_names_a_host_too() {
    let server = held().await;
    let delete = |target: &str, host: &str| {
        let line = format!("DELETE {target}/v1/requests/x HTTP/1.1");
        format!("{line}\r\nhost: {host}\r\nconnection: close\r\n\r\n")
    };
    for (target, host) in [
        ("http://evil.example", "localhost"),
        ("http://evil.example", "evil.example"),
        ("http://localhost", "evil.example"),
        ("https://evil.example:{port}", "127.0.0.1"),
    ] {
        let answer = answer(&server, &delete(target, host)).await;
        is_problem(&answer, 421, "invalid_request", target);
    }
    let user = delete("http://localhost@evil.example", "localhost");
    is_problem(
        &answer(&server, &user).await,
        400,
        "invalid_request",
        "user info",
    );
    is_held(&server).await;
    let own = delete("http://localhost:{port}", "localhost:{port}");
    assert_eq!(answer(&server, &own).await.0, 200);
}

#[tokio::test]
async fn a_foreign_origin_is_refused() {
    let server = held().await;
    for origin in [
        "http://evil.example",
        "null",
        "",
        "http://localhost",
        "http://localhost:1",
        "http://127.0.0.1:{port}",
        "https://localhost:{port}",
        "http://localhost:{port}.evil.example",
        "http://localhost:{port}/",
        "http://user@localhost:{port}",
        "localhost:{port}",
        "file://",
        "chrome-extension://abcdef",
        "http://localhost:{port} http://evil.example",
    ] {
        let lines = format!("host: localhost:{{port}}\r\norigin: {origin}\r\n");
        let answer = forced(&server, &lines).await;
        is_problem(&answer, 403, "forbidden", origin);
    }
    let two = "host: localhost:{port}\r\norigin: http://localhost:{port}\r\norigin: null\r\n";
    is_problem(&forced(&server, two).await, 403, "forbidden", two);
    is_held(&server).await;
}

/// On every path, also where there is none, and for the preflight of a browser.
#[tokio::test]
async fn a_foreign_caller_is_refused_on_every_path() {
    let server = held().await;
    for path in [
        "/",
        "/metrics",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/v1/requests",
        "/nowhere",
    ] {
        for method in ["GET", "OPTIONS", "POST"] {
            let call = |lines: &str| {
                format!("{method} {path} HTTP/1.1\r\n{lines}connection: close\r\n\r\n")
            };
            let foreign = call("host: localhost\r\norigin: http://evil.example\r\n");
            is_problem(&answer(&server, &foreign).await, 403, "forbidden", path);
            let rebound = call("host: evil.example\r\norigin: http://evil.example\r\n");
            is_problem(
                &answer(&server, &rebound).await,
                421,
                "invalid_request",
                path,
            );
        }
    }
}

/// Calls of a browser without an Origin: images, scripts, and pages that follow a link.
#[tokio::test]
async fn another_site_may_only_link_to_the_console() {
    let server = held().await;
    let get = |path: &str, site: &str, mode: &str| {
        let marks = format!("sec-fetch-site: {site}\r\nsec-fetch-mode: {mode}\r\n");
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{marks}connection: close\r\n\r\n")
    };
    for site in ["cross-site", "same-site"] {
        let image = get("/v1/requests", site, "no-cors");
        is_problem(&answer(&server, &image).await, 403, "forbidden", site);
        let link = get("/", site, "navigate");
        assert_eq!(answer(&server, &link).await.0, 200, "{site}");
        let marks =
            format!("host: localhost\r\nsec-fetch-site: {site}\r\nsec-fetch-mode: navigate\r\n");
        is_problem(&forced(&server, &marks).await, 403, "forbidden", site);
    }
    for (site, mode) in [("same-origin", "cors"), ("none", "navigate")] {
        let own = get("/v1/requests", site, mode);
        assert_eq!(answer(&server, &own).await.0, 200, "{site}");
    }
    is_held(&server).await;
}

#[tokio::test]
async fn a_body_that_is_not_application_json_is_415() {
    let server = held().await;
    let renew = r#"{"ttl_ms":31622400000}"#;
    let ask = r#"{"permits":[{"semaphore":"a"}]}"#;
    let calls = [
        ("POST", "/v1/requests/x/renew", renew),
        ("POST", "/v1/requests/x/renew", ""),
        ("PUT", "/v1/requests/y", ask),
        ("PUT", "/v1/semaphores/a", r#"{"capacity":9}"#),
        ("PUT", "/v1/owners/ann", r#"{"ttl_ms":1}"#),
        ("DELETE", "/v1/requests/x", "{}"),
    ];
    let send = async |method: &str, path: &str, head: &str, body: &str| {
        let length = body.len();
        let head = format!("host: localhost\r\n{head}content-length: {length}\r\n");
        let text = format!("{method} {path} HTTP/1.1\r\n{head}connection: close\r\n\r\n{body}");
        answer(&server, &text).await
    };
    for (method, path, body) in calls {
        for head in [
            "content-type: text/plain\r\n",
            "content-type: text/plain; application/json\r\n",
            "content-type: application/x-www-form-urlencoded\r\n",
            "content-type: multipart/form-data; boundary=x\r\n",
            "content-type: application/jsonp\r\n",
            "content-type: application/problem+json\r\n",
            "content-type: application/json, text/plain\r\n",
            "content-type: application/json; charset=utf-16\r\n",
            "content-type: application/json; x=y; Charset=\"latin1\"\r\n",
            "content-type: application/json\r\ncontent-type: text/plain\r\n",
            "content-type:\r\n",
        ] {
            let answer = send(method, path, head, body).await;
            let why = format!("{method} {path} {head}");
            let problem = is_problem(&answer, 415, "invalid_request", &why);
            assert_eq!(problem["field"], "content-type");
        }
        if !body.is_empty() {
            let answer = send(method, path, "", body).await;
            is_problem(&answer, 415, "invalid_request", path);
        }
        for encoding in ["gzip", "br", "identity, gzip", ""] {
            let head =
                format!("content-type: application/json\r\ncontent-encoding: {encoding}\r\n");
            let answer = send(method, path, &head, body).await;
            let problem = is_problem(&answer, 415, "invalid_request", path);
            assert_eq!(problem["field"], "content-encoding");
        }
    }
    is_held(&server).await;
    let request = server.lockhouse.find("x").await.unwrap();
    assert!(request.expires_at.unwrap() < request.created_at + 2 * MINUTE);
}

#[tokio::test]
async fn a_body_of_application_json_is_read_however_it_is_spelt() {
    let server = Server::start().await;
    for content_type in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/json; charset=\"utf-8\"",
        "application/json ;x=text/plain",
    ] {
        let put = Request::builder().method("PUT").uri("/v1/semaphores/a");
        let put = put.header("content-type", content_type);
        let answer = server.send(put, r#"{"capacity":1}"#).await;
        assert!(answer.status.is_success(), "{content_type}");
    }
}

#[tokio::test]
async fn a_call_without_a_body_needs_no_content_type() {
    let server = held().await;
    for (method, path) in [
        ("POST", "/v1/requests/x/renew"),
        ("DELETE", "/v1/requests/x"),
        ("DELETE", "/v1/owners/ann"),
        ("DELETE", "/v1/semaphores/a"),
    ] {
        for length in ["", "content-length: 0\r\n"] {
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{length}");
            let (status, body) = answer(&server, &format!("{head}connection: close\r\n\r\n")).await;
            assert!(
                status < 300 || status == 404,
                "{method} {path}: {status} {body}"
            );
        }
    }
}

/// A server that does not know its names: there, a page's Origin must be the Host that it calls.
#[tokio::test]
async fn off_loopback_the_origin_must_be_the_host() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    let router = lockhouse_server::router(lockhouse);
    let origins: [(&[&str], Option<&str>, u16); 11] = [
        (&["locks.example"], None, 200),
        (&["10.0.0.7:7117"], None, 200),
        (&[], None, 200),
        (&["locks.example"], Some("https://locks.example"), 200),
        (&["locks.example:443"], Some("https://locks.example"), 200),
        (
            &["Locks.example:7117"],
            Some("http://locks.example:7117"),
            200,
        ),
        (&["locks.example"], Some("http://evil.example"), 403),
        (&["locks.example"], Some("http://locks.example:81"), 403),
        (&["locks.example"], Some("null"), 403),
        (&[], Some("http://locks.example"), 403),
        (
            &["locks.example", "evil.example"],
            Some("http://evil.example"),
            400,
        ),
    ];
    for (hosts, origin, status) in origins {
        let mut call = Request::builder().uri("/v1/requests");
        for host in hosts {
            call = call.header("host", *host);
        }
        if let Some(origin) = origin {
            call = call.header("origin", origin);
        }
        let call = call.body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(call).await.unwrap();
        let found = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(found, status, "{hosts:?} {origin:?}: {body:?}");
    }
}
