//! `openapi.json` and the server refuse the same, and generators read it rightly.
//!
//! No schema can say that each semaphore of an ask is named once, that texts are bounded in bytes, that slots bound the
//! capacity, that an expiry lies ahead, or that `by` goes with `force=true` alone: descriptions do.

use crate::access::Guarded;
use crate::contract::Contract;
use crate::server::Server;
use serde_json::{Value, json};

/// Texts that a name, an id or an owner may be, and some that none may be.
fn texts() -> Vec<String> {
    let (longest, longer) = ("x".repeat(255), "x".repeat(256));
    let texts = [
        "a",
        "A b",
        "é🛶",
        "..",
        "",
        " ",
        " a",
        "a ",
        "\u{a0}a",
        "a\u{2003}",
        "a\n",
        "\t",
        "a\0b",
        "a\u{7f}b",
        "a\u{85}b",
        "\u{9f}",
        "a\u{a0}b",
        &longest,
        &longer,
    ];
    texts.map(str::to_owned).into()
}

/// Grants that there may be, and some that none may be.
const GRANTS: [&str; 18] = [
    "read:*",
    "admin:*",
    "force:a:b*",
    "define:backup-slots",
    "hold:a*b",
    "hold:a*b*",
    "hold: a*",
    "hold: a",
    "hold:a ",
    "hold:",
    "hold:a\n*",
    "hold:lockhouse:upkeep",
    "hold:lockhouse:*",
    "hold",
    "",
    "HOLD:*",
    "all:*",
    " hold:*",
];

/// Patterns that there may be, and some that none may be.
const PATTERNS: [&str; 11] = [
    "*",
    "a*",
    "a b*",
    "a *",
    " a*",
    "a",
    "a**",
    "a*b*",
    "a\n*",
    "lockhouse:*",
    "lock*",
];

/// The server accepts the values that the contract allows, and refuses all others as malformed or out of bounds.
#[tokio::test]
async fn the_contract_is_as_strict_as_the_server_about_bodies() {
    let contract = Contract::read();
    let (server, guarded) = (Server::start().await, Guarded::start().await);
    server.lockhouse.define("a", 5).await.unwrap();
    let one = |member: &str, value: Value| {
        let mut ask = json!({"permits": [{"semaphore": "a"}], "ttl_ms": 1});
        ask[member] = value;
        ("PUT", "/v1/requests/{external_id}", ask)
    };
    let permit = |permit: Value| {
        let ask = json!({"permits": [permit], "ttl_ms": 1});
        ("PUT", "/v1/requests/{external_id}", ask)
    };
    let define = |body: Value| ("PUT", "/v1/semaphores/{name}", body);
    let beat = |body: Value| ("PUT", "/v1/owners/{owner}", body);
    let renew = |body: Value| ("POST", "/v1/requests/{external_id}/renew", body);
    let template = |body: Value| ("PUT", "/v1/templates/{pattern}", body);
    let token = |body: Value| ("POST", "/v1/tokens", body);
    let login = |body: Value| ("POST", "/v1/session", body);
    let numbers = [
        json!(4.0),
        json!(4.5),
        json!(0),
        json!(1),
        json!(-1),
        json!(-101),
        json!(100),
        json!(86_400_001),
        json!(1e3),
        json!(31_622_400_000_u64),
        json!(31_622_400_001_u64),
        json!(2_147_483_648_u64),
        json!(1e300),
        json!(null),
        json!("4"),
        json!(true),
        json!([]),
        json!({}),
    ];
    let mut bodies = vec![
        one("x", json!(1)),
        one("permits", json!([])),
        one("permits", json!(null)),
        permit(json!({})),
        permit(json!({"semaphore": "a", "x": 1})),
        permit(json!(["a", 1])),
        define(json!({})),
        define(json!([1])),
        define(json!({"capacity": 1, "x": 1})),
        define(json!({"capacity": 1, "note": ""})),
        define(json!({"capacity": 1, "note": "two\nlines\tand a tab "})),
        define(json!({"capacity": 1, "note": "\0"})),
        define(json!({"capacity": 1, "note": "x".repeat(1025)})),
        beat(json!({})),
        beat(json!({"ttl_ms": 1, "must_exist": null})),
        beat(json!({"ttl_ms": 1, "must_exist": 1})),
        renew(json!({"x": 1})),
        template(json!({})),
        template(json!({"capacity": 1, "x": 1})),
        token(json!({"name": "a"})),
        token(json!({"grants": ["read:*"]})),
        token(json!({"name": "a", "grants": []})),
        token(json!({"name": "many", "grants": vec!["read:*"; 64]})),
        token(json!({"name": "more", "grants": vec!["read:*"; 65]})),
        token(json!({"name": "a", "grants": "read:*"})),
        token(json!({"name": "a", "grants": ["read:*"], "x": 1})),
        token(json!({"name": "forever", "grants": ["read:*"], "expires_at": null})),
        token(json!({"name": "long", "grants": ["read:*"], "expires_at": "2999-12-31T00:00:00Z"})),
        token(json!({"name": "a", "grants": ["read:*"], "expires_at": 1})),
        token(json!({"name": "a", "grants": ["read:*"], "expires_at": {}})),
        login(json!({})),
        login(json!({"token": 1})),
        login(json!({"token": "lh_", "x": 1})),
    ];
    for (i, grant) in GRANTS.into_iter().enumerate() {
        let name = format!("grant {i}");
        bodies.push(token(json!({"name": name, "grants": [grant]})));
    }
    for text in texts() {
        bodies.push(one("owner", json!(text)));
        bodies.push(permit(json!({"semaphore": text})));
        bodies.push(define(json!({"capacity": 1, "changed_by": text})));
        bodies.push(token(json!({"name": text, "grants": ["read:*"]})));
    }
    for number in numbers {
        for member in ["ttl_ms", "wait_ms", "priority"] {
            bodies.push(one(member, number.clone()));
        }
        bodies.push(permit(json!({"semaphore": "a", "count": number})));
        bodies.push(define(json!({"capacity": number})));
        bodies.push(define(json!({"capacity": 1, "expected_capacity": number})));
        bodies.push(template(json!({"capacity": number})));
        bodies.push(template(json!({"capacity": 1, "idle_ms": number})));
        bodies.push(beat(json!({"ttl_ms": number})));
        bodies.push(renew(json!({"ttl_ms": number})));
    }
    // Last, as slots bound the capacity.
    for slots in [json!(true), json!(null), json!(1), json!("true"), json!([])] {
        bodies.push(define(json!({"capacity": 1, "slots": slots})));
    }
    for (i, (method, route, body)) in bodies.into_iter().enumerate() {
        let path = route
            .replace(['{', '}'], "")
            .replace("external_id", &i.to_string())
            .replace("pattern", "t*");
        let answer = match route {
            // Once there is a token, callers need one.
            "/v1/tokens" => guarded.admin(method, &path, &body.to_string()).await,
            _ => server.call(method, &path, &body.to_string()).await,
        };
        let refused = matches!(answer.status.as_u16(), 400 | 422)
            && answer.json()["code"] == "invalid_request";
        let takes = contract.takes(method, route, &body);
        assert_eq!(
            takes, !refused,
            "{method} {route} {body}: {}",
            answer.status
        );
    }
}

#[tokio::test]
async fn the_contract_is_as_strict_as_the_server_about_parameters() {
    let contract = Contract::read();
    let server = Server::start().await;
    let path_of = |parameter: &str| match parameter {
        "name" => "/v1/semaphores/",
        "external_id" => "/v1/requests/",
        "owner" => "/v1/owners/",
        "owner_filter" => "/v1/requests?owner=",
        "semaphore_filter" => "/v1/requests?semaphore=",
        "cursor" => "/v1/semaphores?cursor=",
        "prefix" => "/v1/semaphores?prefix=",
        "limit" => "/v1/semaphores?limit=",
        "pattern" => "/v1/templates/",
        other => panic!("no path for {other}"),
    };
    let limits = [
        "1",
        "1000",
        "0",
        "1001",
        "-1",
        "x",
        "",
        "1e2",
        "18446744073709551616",
    ];
    let limits = limits.map(str::to_owned);
    let [longest, longer] = [254, 255].map(|length| format!("{}*", "x".repeat(length)));
    let patterns = PATTERNS.map(str::to_owned).into_iter();
    let patterns: Vec<_> = patterns.chain([longest, longer]).collect();
    let cursors = ["YQ", "YWI", "Y", "YQ==", "Y+", "*", "a b", ""].map(str::to_owned);
    let texts = texts();
    for parameter in [
        "name",
        "external_id",
        "owner",
        "owner_filter",
        "semaphore_filter",
        "cursor",
        "prefix",
        "limit",
        "pattern",
    ] {
        let schema = &contract.0["components"]["parameters"][parameter]["schema"];
        let values = match parameter {
            "cursor" => &cursors[..],
            "limit" => &limits[..],
            "pattern" => &patterns[..],
            _ => &texts[..],
        };
        // An empty segment is another path.
        let may_be_empty = matches!(parameter, "cursor" | "prefix" | "limit");
        for value in values
            .iter()
            .filter(|value| !value.is_empty() || may_be_empty)
        {
            let encoded = value.bytes().map(|byte| format!("%{byte:02X}"));
            let path = format!("{}{}", path_of(parameter), encoded.collect::<String>());
            let method = match parameter {
                "owner" | "pattern" => "DELETE",
                _ => "GET",
            };
            let status = server.call(method, &path, "").await.status.as_u16();
            // The digits of a number are a number of the contract.
            let number = value.parse::<i64>().ok().filter(|_| parameter == "limit");
            let value = number.map_or(json!(value), |number| json!(number));
            let takes = contract.errors(schema, &value).is_empty();
            assert_eq!(
                takes,
                !matches!(status, 400 | 422),
                "{parameter} {value}: {status}"
            );
        }
    }
}

/// Generators make members with a `default` required, and drop operations with a `const` in a header.
#[test]
fn the_contract_has_nothing_that_generators_misread() {
    let Contract(contract) = Contract::read();
    assert_eq!(
        contract["info"]["license"]["identifier"],
        env!("CARGO_PKG_LICENSE")
    );
    let mut rest = vec![&contract];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(members) => {
                for misread in ["default", "const"] {
                    assert!(!members.contains_key(misread), "{misread} in {value}");
                }
                let is_typed = ["type", "properties"].map(|key| members.contains_key(key));
                let is_enum = members.get("enum").is_some_and(Value::is_array);
                let narrows = members.len() == 1;
                assert!(
                    !is_enum || narrows || is_typed != [false; 2],
                    "no type: {value}"
                );
                rest.extend(members.values());
            }
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
}
