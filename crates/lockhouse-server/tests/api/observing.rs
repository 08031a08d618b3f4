//! Health, metrics and the page.

use hyper::Request;

use crate::full::full;
use crate::server::{Server, until};

#[track_caller]
fn assert_has(text: &str, line: &str) {
    let is_there = text.lines().any(|found| found == line);
    assert!(is_there, "no {line} in\n{text}");
}

#[tokio::test]
async fn a_server_with_its_store_is_alive_and_ready() {
    let server = Server::start().await;
    server.get("/healthz").await.is(200);
    server.get("/readyz").await.is(200);
}

#[tokio::test]
async fn calls_are_counted_by_route_and_status_not_by_name() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server
            .put(&format!("/v1/semaphores/{name}"), r#"{"capacity":1}"#)
            .await
            .is(201);
    }
    server.get("/v1/semaphores/c").await.is(404);
    server.get("/nowhere").await.is(404);
    server.call("BREW", "/", "").await.is(405);
    let metrics = server.get("/metrics").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    for line in [
        r#"lockhouse_http_requests_total{method="PUT",route="/v1/semaphores/{name}",status="201"} 2"#,
        r#"lockhouse_http_requests_total{method="GET",route="/v1/semaphores/{name}",status="404"} 1"#,
        r#"lockhouse_http_requests_total{method="GET",route="none",status="404"} 1"#,
        r#"lockhouse_http_requests_total{method="other",route="/",status="405"} 1"#,
        r#"lockhouse_http_request_duration_seconds_count{method="PUT",route="/v1/semaphores/{name}"} 2"#,
    ] {
        assert_has(&text, line);
    }
    assert!(text.contains("\n# TYPE lockhouse_http_requests_total counter\n"));
    assert!(!text.contains("# EOF"));
}

#[tokio::test]
async fn openmetrics_is_served_on_request() {
    let server = Server::start().await;
    // As Prometheus asks.
    let accept =
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let scrape = Request::get("/metrics").header("accept", accept);
    let metrics = server.send(scrape, "").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(text.contains("\n# TYPE lockhouse_http_connections gauge\n"));
    assert_eq!(text.matches("# EOF").count(), 1);
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_store_is_measured() {
    let server = Server::with_store_metrics().await;
    let client = server.client().await;
    client.define("a", 7).await.unwrap();
    let permit = client.semaphore("a").acquire().await.unwrap();
    permit.release().await.unwrap();
    let held = client.request_with_id("x").permits("a", 1).acquire().await;
    held.unwrap().forget();
    client.force_release("x", None).await.unwrap();
    let text = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&text.body).into_owned();
    for line in [
        r#"lockhouse_requests_ended_total{reason="released"} 1"#,
        r#"lockhouse_requests_ended_total{reason="forced"} 1"#,
        r#"lockhouse_requests_ended_total{reason="expired"} 0"#,
        r#"lockhouse_store_errors_total{call="transact",kind="unavailable"} 0"#,
        r#"lockhouse_store_call_duration_seconds_count{call="transact"} 5"#,
        r#"lockhouse_store_batch_commands_count 5"#,
        r#"lockhouse_store_batch_commands_sum 5.0"#,
        r#"lockhouse_store_retries_total{kind="conflict"} 0"#,
        r#"lockhouse_store_connections_limit 0"#,
        r#"lockhouse_store_calls_queued 0"#,
    ] {
        assert_has(&text, line);
    }
}

#[tokio::test]
async fn grants_holds_refusals_and_semaphores_are_measured() {
    let server = full().await;
    let client = server.client().await;
    let held = client.define("held", 7).await.unwrap();
    assert_eq!(held.semaphore.capacity.value(), 7);
    let request = client.request().permits("held", 3);
    let held = request.acquire().await.unwrap();
    assert!(client.semaphore("a").try_acquire().await.is_err());
    client.define("say \"hi\"", 1).await.unwrap();
    let passing = client.request().permits("held", 1).acquire().await.unwrap();
    passing.release().await.unwrap();
    let text = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&text.body).into_owned();
    for line in [
        r#"lockhouse_semaphore_capacity{semaphore="held"} 7"#,
        r#"lockhouse_semaphore_in_use{semaphore="held"} 3"#,
        r#"lockhouse_semaphore_waiting{semaphore="held"} 0"#,
        r#"lockhouse_semaphore_in_use{semaphore="say \"hi\""} 0"#,
        r#"lockhouse_refusals_total{code="exhausted"} 1"#,
        "lockhouse_hold_seconds_count 1",
        "lockhouse_store_reachable 1",
    ] {
        assert_has(&text, line);
    }
    let grants = text
        .lines()
        .find_map(|line| line.strip_prefix("lockhouse_grant_wait_seconds_count "));
    assert!(
        grants.is_some_and(|count| count.parse::<u32>().unwrap() >= 2),
        "{text}"
    );
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_call_whose_caller_hangs_up_is_counted() {
    let server = full().await;
    let client = server.client().await;
    let waiting = tokio::spawn(async move { client.semaphore("a").acquire().await });
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    waiting.abort();
    until("it is counted", || async {
        let metrics = server.get("/metrics").await;
        String::from_utf8_lossy(&metrics.body).contains(r#"status="499"} 1"#)
    })
    .await;
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::start().await;
    let page = server.get("/").await;
    assert_eq!(
        page.is(200).header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"));
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert!(!text.contains("://") && !text.contains("innerHTML"));
}
