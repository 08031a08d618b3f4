//! Lists: in pieces, each row once.

use crate::access::Guarded;
use crate::server::Server;
use serde_json::{Value, json};

async fn define(server: &Server, names: impl IntoIterator<Item = String>) {
    for name in names {
        server.lockhouse.define(name, 1000).await.unwrap();
    }
}

async fn acquire(server: &Server, semaphore: &str, ids: impl IntoIterator<Item = String>) {
    for id in ids {
        let body = json!({"permits": [{"semaphore": semaphore}]}).to_string();
        server
            .put(&format!("/v1/requests/{id}"), &body)
            .await
            .is(201);
    }
}

/// All pieces of at most `limit`, and how many there were.
async fn all(
    server: &Server,
    path: &str,
    rows: &str,
    key: &str,
    limit: usize,
) -> (Vec<String>, usize) {
    let (mut all, mut pieces, mut cursor) = (Vec::new(), 0, String::new());
    let query = if path.contains('?') { "&" } else { "?" };
    loop {
        let piece = server
            .get(&format!("{path}{query}limit={limit}{cursor}"))
            .await
            .is(200)
            .json();
        let found = piece[rows].as_array().unwrap();
        assert!(found.len() <= limit);
        all.extend(
            found
                .iter()
                .map(|row| row[key].as_str().unwrap().to_owned()),
        );
        pieces += 1;
        match &piece["next"] {
            Value::String(next) => cursor = format!("&cursor={next}"),
            next => {
                assert!(next.is_null());
                return (all, pieces);
            }
        }
    }
}

#[tokio::test]
async fn semaphores_come_in_byte_order_and_in_pieces() {
    let server = Server::start().await;
    let mut names: Vec<_> = ["b", "a", "Z", "é", "a/b", "a b", "..", "z?&=%", "🛶"]
        .map(String::from)
        .into();
    define(&server, names.clone()).await;
    names.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    for (limit, pieces) in [(1, 9), (2, 5), (3, 3), (8, 2), (9, 1), (1000, 1)] {
        let listed = all(&server, "/v1/semaphores", "semaphores", "name", limit).await;
        assert_eq!(listed, (names.clone(), pieces), "limit {limit}");
    }
}

#[tokio::test]
async fn semaphores_are_listed_by_prefix() {
    let server = Server::start().await;
    let names = ["a", "a/1", "a/2", "a/3", "a0", "é 1", "é+2"];
    define(&server, names.map(String::from)).await;
    for (prefix, expected) in [
        ("", &names[..]),
        ("a/", &["a/1", "a/2", "a/3"]),
        ("%61%2F", &["a/1", "a/2", "a/3"]),
        ("a/2", &["a/2"]),
        ("A", &[]),
        ("%C3%A9+", &["é 1"]),
        ("%C3%A9%2B", &["é+2"]),
    ] {
        let path = format!("/v1/semaphores?prefix={prefix}");
        for limit in [1, 2, 1000] {
            let (listed, pieces) = all(&server, &path, "semaphores", "name", limit).await;
            assert_eq!(listed, expected, "{prefix}");
            assert_eq!(pieces, expected.len().div_ceil(limit).max(1), "{prefix}");
        }
    }
    for prefix in ["%00", "a%7F", &"x".repeat(256)] {
        let answer = server.get(&format!("/v1/semaphores?prefix={prefix}")).await;
        let problem = answer.is_problem(422, "invalid_request");
        assert_eq!(problem["field"], "prefix");
    }
    let twice = server.get("/v1/semaphores?prefix=a&prefix=b").await;
    twice.is_problem(400, "invalid_request");

    let client = server.client().await;
    let listed = client.semaphores_with_prefix("é ", None, 10).await.unwrap();
    assert_eq!(listed[0].semaphore.name.as_str(), "é 1");
    assert_eq!(listed.len(), 1);
}

/// A cursor of another listing, or a made-up one, is refused or leads to rows of the listing; it is never an error of
/// the server.
#[tokio::test]
async fn a_cursor_that_no_listing_gave_is_refused() {
    let server = Server::start().await;
    define(&server, ["a".into()]).await;
    acquire(&server, "a", ["x".into()]).await;
    let cursor = |text: &str| lockhouse_wire::cursor(text);
    for text in [
        "",
        "1",
        "1.",
        ".1",
        "01.1",
        "+1.1",
        "-1.1",
        "1.1.1",
        "9223372036854775808.0",
        "a.b",
    ] {
        let path = format!("/v1/requests?cursor={}", cursor(text));
        server.get(&path).await.is_problem(400, "invalid_request");
    }
    for text in [
        "0.0",
        "0.9223372036854775807",
        "9223372036854775807.9223372036854775807",
        "7.1",
    ] {
        for path in [
            "/v1/requests?",
            "/v1/requests?semaphore=a&",
            "/v1/semaphores/a/holders?",
        ] {
            let path = format!("{path}cursor={}", cursor(text));
            server.get(&path).await.is(200);
        }
    }
}

#[tokio::test]
async fn a_piece_has_100_rows_unless_asked_otherwise() {
    let server = Server::start().await;
    define(&server, (0..101).map(|i| format!("{i:03}"))).await;
    let piece = server.get("/v1/semaphores").await.json();
    assert_eq!(piece["semaphores"].as_array().unwrap().len(), 100);
    let next = piece["next"].as_str().unwrap();
    let rest = server
        .get(&format!("/v1/semaphores?cursor={next}"))
        .await
        .json();
    assert_eq!(rest["semaphores"][0]["name"], "100");
    assert!(rest["next"].is_null());
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    let server = Server::start().await;
    let empty = json!({"semaphores": [], "next": null});
    assert_eq!(server.get("/v1/semaphores").await.is(200).json(), empty);
    let empty = json!({"requests": [], "next": null});
    assert_eq!(server.get("/v1/requests").await.is(200).json(), empty);
}

#[tokio::test]
async fn listings_show_live_requests_only() {
    let server = Server::start().await;
    define(&server, ["a".into(), "b".into()]).await;
    acquire(&server, "a", (0..5).map(|i| format!("a{i}"))).await;
    acquire(&server, "b", (0..4).map(|i| format!("b{i}"))).await;
    server.call("DELETE", "/v1/requests/a2", "").await.is(200);

    let path = "/v1/semaphores/a/holders";
    let (holders, pieces) = all(&server, path, "holders", "external_id", 2).await;
    assert_eq!((holders.join(" ").as_str(), pieces), ("a0 a1 a3 a4", 2));
    let (requests, pieces) = all(&server, "/v1/requests", "requests", "external_id", 3).await;
    assert_eq!(
        (requests.join(" ").as_str(), pieces),
        ("a0 a1 a3 a4 b0 b1 b2 b3", 3)
    );
    server
        .get("/v1/semaphores/c/holders")
        .await
        .is_problem(404, "unknown_semaphore");
}

#[tokio::test]
async fn requests_are_filtered_by_owner_and_semaphore() {
    let server = Server::start().await;
    define(&server, ["a".into(), "b".into()]).await;
    let holds = [
        ("1", "ann", "a"),
        ("2", "ann", "b"),
        ("3", "bob", "a"),
        ("4", "ann", "a"),
        ("5", "bob & co/ü", "b"),
        ("6", "ann", "a"),
    ];
    for (id, owner, semaphore) in holds {
        let ask = json!({"permits": [{"semaphore": semaphore}], "owner": owner}).to_string();
        server
            .put(&format!("/v1/requests/{id}"), &ask)
            .await
            .is(201);
    }
    acquire(&server, "a", ["7".into()]).await;
    server.call("DELETE", "/v1/requests/6", "").await.is(200);
    for (query, expected) in [
        ("", "1 2 3 4 5 7"),
        ("?owner=ann", "1 2 4"),
        ("?semaphore=a", "1 3 4 7"),
        ("?owner=ann&semaphore=a", "1 4"),
        ("?semaphore=b&owner=ann", "2"),
        ("?owner=bob+%26%20co%2F%C3%BC", "5"),
        ("?owner=Ann", ""),
        ("?owner=nobody", ""),
    ] {
        let path = format!("/v1/requests{query}");
        for limit in [1, 2, 100] {
            let (ids, pieces) = all(&server, &path, "requests", "external_id", limit).await;
            assert_eq!(ids.join(" "), expected, "{query}");
            assert_eq!(pieces, ids.len().div_ceil(limit).max(1), "{query}");
        }
    }
    for query in ["?semaphore=c", "?semaphore=c&owner=ann"] {
        let answer = server.get(&format!("/v1/requests{query}")).await;
        answer.is_problem(404, "unknown_semaphore");
    }
    for (query, field) in [
        ("?owner=", "owner"),
        ("?owner=%20a", "owner"),
        ("?semaphore=a%0A", "semaphore"),
    ] {
        let answer = server.get(&format!("/v1/requests{query}")).await;
        let problem = answer.is_problem(422, "invalid_request");
        assert_eq!(problem["field"], field, "{query}");
    }
}

/// Long rows make short pages, and the client sees all of them.
#[tokio::test]
async fn a_page_is_bounded_by_its_length_too() {
    let server = Server::start().await;
    let names: Vec<_> = (0..64).map(|n| format!("{n:0>255}")).collect();
    define(&server, names.clone()).await;
    let ids: Vec<_> = (0..200).map(|n| format!("x{n}")).collect();
    let permits = names
        .iter()
        .map(|name| serde_json::json!({"semaphore": name}));
    let ask = serde_json::json!({"permits": permits.collect::<Vec<_>>()}).to_string();
    for id in &ids {
        server
            .put(&format!("/v1/requests/{id}"), &ask)
            .await
            .is(201);
    }
    let piece = server.get("/v1/requests?limit=1000").await;
    let length = piece.is(200).body.len();
    assert!(length < 1_500_000, "{length}");
    assert!(piece.json()["requests"].as_array().unwrap().len() > 30);
    let (all, pieces) = all(&server, "/v1/requests", "requests", "external_id", 1000).await;
    assert_eq!(all, ids);
    assert!((2..10).contains(&pieces), "{pieces}");
    let client = server.client().await;
    let listed = client.holders(None, None, 1000).await.unwrap();
    assert_eq!((listed.requests.len(), listed.next), (200, None));
    let listed = client.holders(None, None, 150).await.unwrap();
    assert_eq!(listed.requests.len(), 150);
    let rest = client.holders(None, listed.next, 150).await.unwrap();
    assert_eq!((rest.requests.len(), rest.next), (50, None));
}

#[tokio::test]
async fn pages_of_an_owner_do_not_name_tokens_whose_requests_are_hidden() {
    let guarded = Guarded::start().await;
    guarded.define("seen", 9).await;
    guarded.define("hidden", 9).await;
    for (name, semaphore) in [("blue", "hidden"), ("green", "seen"), ("red", "hidden")] {
        let token = guarded.token(name, &["hold:*"]).await;
        let ask = json!({"permits": [{"semaphore": semaphore}], "owner": "ann"}).to_string();
        for request in 0..2 {
            let path = format!("/v1/requests/{name}-{request}");
            guarded.call(&token, "PUT", &path, &ask).await.is(201);
        }
    }
    let reader = guarded.token("reader", &["read:seen"]).await;
    let (mut found, mut places, mut query) = (0, Vec::new(), String::new());
    loop {
        let path = format!("/v1/requests?owner=ann&limit=1{query}");
        let listed = guarded.call(&reader, "GET", &path, "").await.is(200).json();
        found += listed["requests"].as_array().unwrap().len();
        let Some(next) = listed["next"].as_str() else {
            break;
        };
        places.push(lockhouse_wire::key::<String>(next).unwrap());
        query = format!("&cursor={next}");
    }
    assert_eq!(found, 2);
    // Each page but the last ends within the requests of one of several owners.
    assert!(places.len() > 2);
    for place in places {
        let names = ["blue", "green", "red", "ann"];
        assert!(!names.iter().any(|name| place.contains(name)), "{place}");
    }
}
