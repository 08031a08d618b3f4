//! Calls of any shape: each is answered, as the API says, and none leaves anything off.

#![allow(clippy::unwrap_used)]

use axum::body::Body;
use axum::http::{Method, Request, Uri};
use http_body_util::BodyExt;
use lockhouse::{Code, Lockhouse};
use lockhouse_wire::Problem;
use proptest::prelude::*;
use tokio::runtime;
use tower::ServiceExt;

#[derive(Clone, Debug)]
struct Call {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["%20", "%2F", "%00", "%FF", "..", "%2E%2E", "%", "é", "%F0%9F%9B%B6", "+"])
            .prop_map(str::to_owned),
        1 => "[!-~]{0,12}",
    ]
}

fn paths() -> impl Strategy<Value = String> {
    let of = prop::sample::select(vec![
        "semaphores",
        "requests",
        "owners",
        "holders",
        "",
        "v1",
    ]);
    let below = prop::sample::select(vec![
        "", "/", "/holders", "/history", "/waiting", "/renew", "/x",
    ]);
    let query = prop_oneof![
        4 => Just(String::new()),
        1 => prop::sample::select(vec![
            "?force=true", "?force=maybe", "?limit=0", "?limit=9999999999999999999999", "?cursor=%00", "?cursor=YQ",
            "?limit=1&limit=2", "?owner=a&semaphore=b", "?by=me", "?%", "?=",
        ])
        .prop_map(str::to_owned),
        1 => "\\?[!-~]{0,16}",
    ];
    (of, names(), below, query)
        .prop_map(|(of, name, below, query)| format!("/v1/{of}/{name}{below}{query}"))
}

/// A number, most often one that is taken.
fn numbers() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..4_i64).prop_map(|n| n.to_string()),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => prop::sample::select(vec![
            "-0", "1e3", "1e400", "0.5", "null", "true", "\"1\"", "[]", "{}", "18446744073709551616",
            "2147483647", "2147483648", "86400001",
        ])
        .prop_map(str::to_owned),
    ]
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let defines = (numbers(), numbers()).prop_map(|(capacity, expected)| match expected.as_str() {
        "0" => format!(r#"{{"capacity":{capacity},"expected_capacity":{expected},"note":"n"}}"#),
        _ => format!(r#"{{"capacity":{capacity}}}"#),
    });
    let acquires = (names(), numbers(), names(), numbers(), numbers(), numbers()).prop_map(
        |(one, count, other, ttl, wait, priority)| {
            format!(
                r#"{{"permits":[{{"semaphore":"{one}","count":{count}}},{{"semaphore":"{other}"}}],
                "owner":"a","ttl_ms":{ttl}000,"wait_ms":{wait},"priority":{priority}}}"#
            )
        },
    );
    let beats = numbers().prop_map(|ttl| format!(r#"{{"ttl_ms":{ttl}}}"#));
    let document = prop_oneof![defines, acquires, beats].prop_map(String::into_bytes);
    let spoilt = (
        document.clone(),
        any::<prop::sample::Index>(),
        any::<u8>(),
        0..3_u8,
    );
    let spoilt = spoilt.prop_map(|(mut bytes, at, byte, how)| {
        let at = at.index(bytes.len());
        match how {
            0 => bytes.truncate(at),
            1 => bytes[at] = byte,
            _ => bytes.insert(at, byte),
        }
        bytes
    });
    let nested = (1..2_000_usize).prop_map(|depth| "[".repeat(depth).into_bytes());
    prop_oneof![
        6 => document,
        2 => spoilt,
        1 => nested,
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let method = prop::sample::select(vec![
        "PUT", "PUT", "PUT", "GET", "DELETE", "DELETE", "POST", "PATCH", "HEAD", "OPTIONS", "X",
    ]);
    let content_type = prop_oneof![
        9 => Just("application/json"),
        1 => prop::sample::select(vec!["text/plain", "application/json; charset=utf-8", "", ";"]),
    ];
    // Most calls that take no body have none.
    let leaves_it_out = prop::bool::weighted(0.8);
    let call = (method, paths(), content_type, bodies(), leaves_it_out).prop_map(
        |(method, path, content_type, mut body, leaves_it_out)| {
            if leaves_it_out && !matches!(method, "PUT" | "POST") {
                body.clear();
            }
            Call {
                method,
                path,
                content_type,
                body,
            }
        },
    );
    prop::collection::vec(call, 1..40)
}

/// None if it can't be sent at all.
fn request(call: &Call) -> Option<Request<Body>> {
    let uri: Uri = call.path.parse().ok()?;
    let method = Method::from_bytes(call.method.as_bytes()).ok()?;
    let request = Request::builder().method(method).uri(uri);
    let request = request.header("content-type", call.content_type);
    request.body(Body::from(call.body.clone())).ok()
}

async fn answer_all(calls: &[Call]) {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    for name in ["a", "b"] {
        lockhouse.define(name, 3).await.unwrap();
    }
    let router = lockhouse_server::router(lockhouse.clone());
    for call in calls {
        let Some(request) = request(call) else {
            continue;
        };
        let answer = router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        assert!(!status.is_server_error(), "{status} to {call:?}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        if status.is_client_error() && call.method != "HEAD" {
            let problem: Problem = serde_json::from_slice(&body).unwrap();
            let code = Code::parse(&problem.code);
            assert!(code.is_some(), "{problem:?} to {call:?}");
            assert_eq!(problem.status, status.as_u16(), "{call:?}");
        }
    }
    assert_eq!(lockhouse.verify().await.unwrap(), []);
}

proptest! {
    /// P2 and P6 hold whatever is sent.
    #[test]
    fn random_input_is_answered_and_leaves_counters_right(calls in calls()) {
        let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(answer_all(&calls));
    }
}
