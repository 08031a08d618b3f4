//! A malformed body is 400, a value out of bounds 422. Both name the field.

use crate::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn acquire(members: &str) -> String {
    format!(r#"{{"permits":[{{"semaphore":"a"}}]{members}}}"#)
}

fn permit(members: &str) -> String {
    format!(r#"{{"permits":[{{"semaphore":"a"{members}}}]}}"#)
}

#[tokio::test]
async fn a_malformed_call_is_400_and_names_the_place() {
    let server = Server::start().await;
    let calls = [
        ("PUT", "/v1/semaphores/a", String::new(), "body"),
        ("PUT", "/v1/semaphores/a", "capacity=1".into(), "body"),
        ("PUT", "/v1/semaphores/a", r#"{"capacity":1"#.into(), "body"),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":1}{}"#.into(),
            "body",
        ),
        ("PUT", "/v1/semaphores/a", "{}".into(), "capacity"),
        ("PUT", "/v1/semaphores/a", "[1]".into(), "body"),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":"1"}"#.into(),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":null}"#.into(),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":1.5}"#.into(),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":1,"note":7}"#.into(),
            "note",
        ),
        (
            "PUT",
            "/v1/semaphores/a",
            r#"{"capacity":1,"capcity":2}"#.into(),
            "capcity",
        ),
        ("PUT", "/v1/requests/x", "{}".into(), "permits"),
        (
            "PUT",
            "/v1/requests/x",
            r#"{"permits":{}}"#.into(),
            "permits",
        ),
        (
            "PUT",
            "/v1/requests/x",
            permit(r#","count":true"#),
            "permits[0].count",
        ),
        ("PUT", "/v1/requests/x", permit(r#","weight":1"#), "weight"),
        ("PUT", "/v1/requests/x", acquire(r#","ttl":60"#), "ttl"),
        (
            "PUT",
            "/v1/requests/x",
            acquire(r#","ttl_ms":"60s""#),
            "ttl_ms",
        ),
        (
            "PUT",
            "/v1/requests/x",
            acquire(r#","wait_ms":[]"#),
            "wait_ms",
        ),
        ("PUT", "/v1/requests/x", acquire(r#","owner":1"#), "owner"),
        ("POST", "/v1/requests/x/renew", "null".into(), "body"),
        (
            "POST",
            "/v1/requests/x/renew",
            r#"{"ttl_ms":{}}"#.into(),
            "ttl_ms",
        ),
        ("GET", "/v1/semaphores?limit=ten", String::new(), "limit"),
        ("GET", "/v1/semaphores?cursor=*", String::new(), "cursor"),
        (
            "GET",
            "/v1/requests?limit=1&limit=2",
            String::new(),
            "limit",
        ),
    ];
    for (method, path, body, field) in calls {
        let answer = server.call(method, path, &body).await;
        let problem = answer.is_problem(400, "invalid_request");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(field), "{method} {path} {body}: {detail}");
        assert!(problem["field"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn a_value_out_of_bounds_is_422_and_names_the_field() {
    let server = Server::start().await;
    let long = "x".repeat(256);
    let define = |capacity: &str| format!(r#"{{"capacity":{capacity}}}"#);
    let twice = r#"{"permits":[{"semaphore":"a"},{"semaphore":"a"}]}"#.to_owned();
    let many: Vec<_> = (0..65)
        .map(|i| format!(r#"{{"semaphore":"{i}"}}"#))
        .collect();
    let many = format!(r#"{{"permits":[{}]}}"#, many.join(","));
    let note = "x".repeat(1025);
    let calls = [
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define("-1"),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define("2147483648"),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define("9223372036854775807"),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define("99999999999999999999"),
            "capacity",
        ),
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define(r#"1,"changed_by":"""#),
            "changed_by",
        ),
        (
            "PUT",
            "/v1/semaphores/a".to_owned(),
            define(&format!(r#"1,"note":"{note}""#)),
            "note",
        ),
        (
            "PUT",
            format!("/v1/semaphores/{long}"),
            define("1"),
            "semaphore",
        ),
        (
            "GET",
            "/v1/semaphores/%20a".to_owned(),
            String::new(),
            "semaphore",
        ),
        (
            "DELETE",
            "/v1/semaphores/a%0A".to_owned(),
            String::new(),
            "semaphore",
        ),
        (
            "GET",
            "/v1/semaphores/a%00/holders".to_owned(),
            String::new(),
            "semaphore",
        ),
        (
            "GET",
            format!("/v1/requests/{long}"),
            String::new(),
            "external_id",
        ),
        (
            "PUT",
            "/v1/requests/x%7F".to_owned(),
            acquire(""),
            "external_id",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            r#"{"permits":[]}"#.to_owned(),
            "permits",
        ),
        ("PUT", "/v1/requests/x".to_owned(), twice, "permits"),
        ("PUT", "/v1/requests/x".to_owned(), many, "permits"),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            permit(r#","count":0"#),
            "count",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            permit(r#","count":2147483648"#),
            "count",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","owner":" ann""#),
            "owner",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","ttl_ms":0"#),
            "ttl_ms",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","ttl_ms":31622400001"#),
            "ttl_ms",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","wait_ms":-1"#),
            "wait_ms",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","wait_ms":86400001"#),
            "wait_ms",
        ),
        (
            "PUT",
            "/v1/requests/x".to_owned(),
            acquire(r#","priority":-101"#),
            "priority",
        ),
        (
            "POST",
            "/v1/requests/x/renew".to_owned(),
            r#"{"ttl_ms":-5}"#.to_owned(),
            "ttl_ms",
        ),
        (
            "GET",
            "/v1/semaphores?limit=0".to_owned(),
            String::new(),
            "limit",
        ),
        (
            "GET",
            "/v1/requests?limit=1001".to_owned(),
            String::new(),
            "limit",
        ),
        (
            "GET",
            "/v1/semaphores/a/history?limit=-1".to_owned(),
            String::new(),
            "limit",
        ),
    ];
    for (method, path, body, field) in calls {
        let answer = server.call(method, &path, &body).await;
        let problem = answer.is_problem(422, "invalid_request");
        assert_eq!(problem["field"], field, "{method} {path} {body}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(field), "{detail}");
    }
}

#[tokio::test]
async fn values_at_their_bounds_are_accepted() {
    let server = Server::start().await;
    let longest = "x".repeat(255);
    let path = format!("/v1/semaphores/{longest}");
    server
        .put(&path, r#"{"capacity":2147483647}"#)
        .await
        .is(201);
    let all = format!(
        r#"{{"permits":[{{"semaphore":"{longest}","count":2147483647}}],"owner":"{longest}","ttl_ms":31622400000,"wait_ms":86400000,"priority":-100}}"#
    );
    server
        .put(&format!("/v1/requests/{longest}"), &all)
        .await
        .is(201);
}

#[tokio::test]
async fn null_members_count_as_absent() {
    let server = Server::start().await;
    server
        .put(
            "/v1/semaphores/a",
            r#"{"capacity":1,"note":null,"changed_by":null}"#,
        )
        .await
        .is(201);
    let ask = acquire(r#","owner":null,"ttl_ms":null,"wait_ms":null,"priority":null"#);
    server.put("/v1/requests/x", &ask).await.is(201);
}

#[tokio::test]
async fn a_call_that_takes_no_body_takes_an_empty_object_and_no_members() {
    let server = Server::start().await;
    for path in ["/v1/requests/x", "/v1/semaphores/a", "/v1/owners/ann"] {
        let answer = server.call("DELETE", path, r#"{"force":true}"#).await;
        let problem = answer.is_problem(400, "invalid_request");
        assert!(problem["detail"].as_str().unwrap().contains("`force`"));
        let answer = server.call("DELETE", path, "{}").await;
        assert!(matches!(answer.status.as_u16(), 200 | 404), "{path}");
    }
}

#[tokio::test]
async fn a_body_is_at_most_64_kib_long() {
    let server = Server::start().await;
    let padded = |length: usize| {
        let body = r#"{"capacity":1}"#;
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    server
        .put("/v1/semaphores/a", &padded(64 * 1024))
        .await
        .is(201);
    for length in [64 * 1024 + 1, 100_000, 1024 * 1024] {
        let answer = server.put("/v1/semaphores/a", &padded(length)).await;
        let problem = answer.is_problem(413, "invalid_request");
        assert_eq!(problem["field"], "body");
    }
    server.get("/v1/semaphores/a").await.is(200);
}

/// All that the server sends to a call of `length` bytes that awaits a go-ahead, before there is a body.
async fn told_before_the_body(server: &Server, expect: &str, length: usize) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: {expect}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = vec![0; 16];
    let first = timeout(crate::hanging_up::SOON, stream.read_exact(&mut told)).await;
    first.expect("an answer in time").unwrap();
    if !told.starts_with(b"HTTP/1.1 100") {
        // The connection ends, as the server will not read the body.
        let rest = timeout(crate::hanging_up::SOON, stream.read_to_end(&mut told)).await;
        rest.expect("an end in time").unwrap();
    }
    String::from_utf8(told).unwrap()
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_sent() {
    let server = Server::start().await;
    for expect in ["100-continue", "100-Continue"] {
        for length in [64 * 1024 + 1, 10_000_000_000] {
            let told = told_before_the_body(&server, expect, length).await;
            assert!(told.starts_with("HTTP/1.1 413 "), "{told}");
            assert!(!told.contains("100 Continue"), "{told}");
            assert!(told.contains("the most is 65536 bytes"), "{told}");
        }
        let told = told_before_the_body(&server, expect, 64 * 1024).await;
        assert_eq!(told, "HTTP/1.1 100 Con");
    }
}
