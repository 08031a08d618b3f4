//! `openapi.json` and the server refuse the same, and generators read it rightly.
//!
//! No schema can say that each semaphore of an ask is named once, that texts are bounded in bytes, or
//! that `by` goes with `force=true` alone: descriptions do.

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

/// The server accepts what the contract accepts, and refuses everything else as malformed or out of
/// bounds.
#[tokio::test]
async fn the_contract_is_as_strict_as_the_server_about_bodies() {
    let contract = Contract::read();
    let server = Server::start().await;
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
    ];
    for text in texts() {
        bodies.push(one("owner", json!(text)));
        bodies.push(permit(json!({"semaphore": text})));
        bodies.push(define(json!({"capacity": 1, "changed_by": text})));
    }
    for number in numbers {
        for member in ["ttl_ms", "wait_ms", "priority"] {
            bodies.push(one(member, number.clone()));
        }
        bodies.push(permit(json!({"semaphore": "a", "count": number})));
        bodies.push(define(json!({"capacity": number})));
        bodies.push(define(json!({"capacity": 1, "expected_capacity": number})));
        bodies.push(beat(json!({"ttl_ms": number})));
        bodies.push(renew(json!({"ttl_ms": number})));
    }
    for (i, (method, route, body)) in bodies.into_iter().enumerate() {
        let path = route
            .replace(['{', '}'], "")
            .replace("external_id", &i.to_string());
        let answer = server.call(method, &path, &body.to_string()).await;
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
        other => panic!("no path for {other}"),
    };
    let cursors = ["YQ", "YWI", "Y", "YQ==", "Y+", "*", "a b", ""].map(str::to_owned);
    let texts = texts();
    for parameter in [
        "name",
        "external_id",
        "owner",
        "owner_filter",
        "semaphore_filter",
        "cursor",
    ] {
        let schema = &contract.0["components"]["parameters"][parameter]["schema"];
        let values = if parameter == "cursor" {
            &cursors[..]
        } else {
            &texts[..]
        };
        // An empty segment is another path.
        for value in values
            .iter()
            .filter(|value| !value.is_empty() || parameter == "cursor")
        {
            let encoded = value.bytes().map(|byte| format!("%{byte:02X}"));
            let path = format!("{}{}", path_of(parameter), encoded.collect::<String>());
            let method = if parameter == "owner" {
                "DELETE"
            } else {
                "GET"
            };
            let status = server.call(method, &path, "").await.status.as_u16();
            let takes = contract.errors(schema, &json!(value)).is_empty();
            assert_eq!(
                takes,
                !matches!(status, 400 | 422),
                "{parameter} {value:?}: {status}"
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
