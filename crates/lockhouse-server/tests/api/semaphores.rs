//! `/v1/semaphores/{name}`: defining, showing, deleting, history.

use crate::server::Server;
use hyper::Request;
use serde_json::json;

#[tokio::test]
async fn a_semaphore_is_created_then_resized() {
    let server = Server::start().await;
    let created = server
        .put("/v1/semaphores/slots", r#"{"capacity":10}"#)
        .await;
    let created = created.is(201).json();
    for (member, value) in [
        ("name", json!("slots")),
        ("capacity", json!(10)),
        ("in_use", json!(0)),
        ("available", json!(10)),
        ("waiting", json!(0)),
        ("fence", json!(0)),
    ] {
        assert_eq!(created[member], value, "{member}");
    }
    assert!(created["created_at"].as_str().unwrap().ends_with('Z'));

    let resized = server
        .put("/v1/semaphores/slots", r#"{"capacity":0}"#)
        .await;
    assert_eq!(resized.is(200).json()["capacity"], 0);
    let shown = server.get("/v1/semaphores/slots").await;
    assert_eq!(shown.is(200).json(), resized.json());
    assert_eq!(shown.header("content-type"), Some("application/json"));
    assert_eq!(shown.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn available_is_never_below_0() {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":3}"#)
        .await
        .is(201);
    let ask = r#"{"permits":[{"semaphore":"a","count":3}]}"#;
    server.put("/v1/requests/x", ask).await.is(201);
    let resized = server
        .put("/v1/semaphores/a", r#"{"capacity":1}"#)
        .await
        .json();
    assert_eq!(
        (&resized["in_use"], &resized["available"]),
        (&json!(3), &json!(0))
    );
}

#[tokio::test]
async fn if_match_asks_for_one_that_exists() {
    let server = Server::start().await;
    let put = |if_match: &str| {
        let request = Request::builder().method("PUT").uri("/v1/semaphores/a");
        server.send(
            request.header("if-match", if_match.to_owned()),
            r#"{"capacity":1}"#,
        )
    };
    let problem = put("*").await.is_problem(404, "unknown_semaphore");
    assert_eq!(problem["semaphores"], json!(["a"]));
    server
        .put("/v1/semaphores/a", r#"{"capacity":3}"#)
        .await
        .is(201);
    put("*").await.is(200);
    let problem = put("\"etag\"").await.is_problem(400, "invalid_request");
    assert_eq!(problem["field"], "If-Match");
}

#[tokio::test]
async fn if_none_match_creates_and_never_resizes() {
    let server = Server::start().await;
    let put = |capacity: u32, condition: &str| {
        let request = Request::builder().method("PUT").uri("/v1/semaphores/a");
        let request = request.header("if-none-match", condition.to_owned());
        let (server, body) = (&server, json!({"capacity": capacity}).to_string());
        async move { server.send(request, &body).await }
    };
    put(1, "*").await.is(201);
    put(1, "*").await.is(200);
    let problem = put(2, "*").await.is_problem(409, "capacity_changed");
    assert_eq!(
        (&problem["capacity"], &problem["expected_capacity"]),
        (&json!(1), &json!(2))
    );
    let problem = put(2, "\"etag\"").await.is_problem(400, "invalid_request");
    assert_eq!(problem["field"], "If-None-Match");
    let two = Request::builder().method("PUT").uri("/v1/semaphores/a");
    let two = two.header("if-none-match", "*");
    let two = two.header("if-none-match", "\"etag\"");
    let answer = server.send(two, r#"{"capacity":1}"#).await;
    answer.is_problem(400, "invalid_request");
    let shown = server.get("/v1/semaphores/a").await.json();
    assert_eq!(shown["capacity"], 1);
}

#[tokio::test]
async fn an_expected_capacity_makes_a_resize_conditional() {
    let server = Server::start().await;
    let put = |capacity: u32, expected: i64| {
        let body = json!({"capacity": capacity, "expected_capacity": expected}).to_string();
        let server = &server;
        async move { server.put("/v1/semaphores/a", &body).await }
    };
    let problem = put(2, 1).await.is_problem(404, "unknown_semaphore");
    assert_eq!(problem["semaphores"], json!(["a"]), "it must exist");
    let define = r#"{"capacity":1,"expected_capacity":null}"#;
    server.put("/v1/semaphores/a", define).await.is(201);
    put(2, 1).await.is(200);
    put(2, 1).await.is(200);
    let problem = put(3, 1).await.is_problem(409, "capacity_changed");
    for (member, value) in [
        ("semaphores", json!(["a"])),
        ("capacity", json!(2)),
        ("expected_capacity", json!(1)),
    ] {
        assert_eq!(problem[member], value, "{member}");
    }
    let problem = put(3, -1).await.is_problem(422, "invalid_request");
    assert_eq!(problem["field"], "expected_capacity");
    let shown = server.get("/v1/semaphores/a").await.json();
    assert_eq!(shown["capacity"], 2);
}

#[tokio::test]
async fn every_resize_is_in_the_history() {
    let server = Server::start().await;
    for body in [
        r#"{"capacity":1}"#,
        r#"{"capacity":2,"changed_by":"ann","note":"more\nroom"}"#,
        r#"{"capacity":2}"#,
        r#"{"capacity":3}"#,
    ] {
        server.put("/v1/semaphores/a", body).await;
    }
    let history = server.get("/v1/semaphores/a/history").await.is(200).json();
    let changes = history["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{history}");
    assert_eq!(changes[0]["new_capacity"], 3, "the newest comes first");
    assert_eq!(changes[0]["changed_by"], json!(null));
    assert_eq!(
        (&changes[1]["old_capacity"], &changes[1]["new_capacity"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        (&changes[1]["changed_by"], &changes[1]["note"]),
        (&json!("ann"), &json!("more\nroom"))
    );

    let one = server.get("/v1/semaphores/a/history?limit=1").await.json();
    assert_eq!(one["changes"].as_array().unwrap().len(), 1);
    let unknown = server.get("/v1/semaphores/b/history").await;
    unknown.is_problem(404, "unknown_semaphore");
}

#[tokio::test]
async fn a_held_semaphore_is_not_deleted() {
    let server = Server::start().await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":2}"#)
        .await
        .is(201);
    let ask = r#"{"permits":[{"semaphore":"a","count":2}]}"#;
    server.put("/v1/requests/x", ask).await.is(201);
    let problem = server.call("DELETE", "/v1/semaphores/a", "").await;
    let problem = problem.is_problem(409, "semaphore_in_use");
    assert_eq!(
        (&problem["semaphores"], &problem["in_use"]),
        (&json!(["a"]), &json!(2))
    );

    server.call("DELETE", "/v1/requests/x", "").await.is(200);
    let deleted = server.call("DELETE", "/v1/semaphores/a", "").await;
    assert!(deleted.is(204).body.is_empty());
    server
        .get("/v1/semaphores/a")
        .await
        .is_problem(404, "unknown_semaphore");
    let again = server.call("DELETE", "/v1/semaphores/a", "").await;
    again.is_problem(404, "unknown_semaphore");
}
