//! A graceful stop: nothing that is under way is broken off.

use std::time::Duration;

use crate::full::{full, waiter};
use crate::server::{Server, until};
use lockhouse::Lockhouse;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn shutdown_answers_waiting_calls_with_503() {
    let mut server = full().await;
    let lockhouse = server.lockhouse.clone();
    let mut waiting = waiter(&server, "y").await;
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    let begun = Instant::now();
    server.stop();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("store_unavailable"), "{answer}");
    server.stopped().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(lockhouse.find("y").await.is_err(), "nothing was granted");
}

#[tokio::test]
async fn shutdown_refuses_new_connections_and_closes_idle_ones() {
    let mut server = full().await;
    let address = server.address;
    // One that is used and kept, one that is not used yet, one that is in the middle of a head.
    let client = server.client().await;
    client.ready().await.unwrap();
    let unused = TcpStream::connect(address).await.unwrap();
    let mut begun = TcpStream::connect(address).await.unwrap();
    begun.write_all(b"GET /healthz HT").await.unwrap();
    let since = Instant::now();
    server.stop();
    server.stopped().await;
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    assert!(TcpStream::connect(address).await.is_err());
    drop(unused);
}

/// A body that is on its way is waited for.
#[tokio::test]
async fn a_call_under_way_is_answered() {
    let mut server = full().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The second call is answered only after the server has read the first one's head.
    server.get("/healthz").await.is(200);
    let address = server.address;
    server.stop();
    until("nobody is let in", || async {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    stream.write_all(br#"{"capacity":7}"#).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.stopped().await;
}

/// The clock is paused, and jumps ahead when nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn an_unfinished_call_does_not_delay_shutdown() {
    let mut server = full().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    server.get("/healthz").await.is(200);
    let since = Instant::now();
    server.stop();
    server.stopped().await;
    assert!(
        since.elapsed() <= Duration::from_secs(12),
        "{:?}",
        since.elapsed()
    );
}

/// Half a head is no call yet.
#[tokio::test]
async fn half_a_request_head_does_not_delay_shutdown() {
    for before in ["", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let mut server = full().await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(before.as_bytes()).await.unwrap();
        if !before.is_empty() {
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        }
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost")
            .await
            .unwrap();
        server.get("/healthz").await.is(200);
        let since = Instant::now();
        server.stop();
        server.stopped().await;
        let took = since.elapsed();
        assert!(took < Duration::from_secs(3), "after {before:?}: {took:?}");
    }
}

/// P11: a rolling upgrade of two servers moves nobody in the line.
#[tokio::test]
async fn waiters_of_a_server_that_stops_keep_their_places_at_another() {
    let store = lockhouse_stores::open("memory:").unwrap();
    let mut stops = Server::on(Lockhouse::with_store(store.clone())).await;
    let stays = Server::on(Lockhouse::with_store(store)).await;
    let capacity = r#"{"capacity":1}"#;
    stays.put("/v1/semaphores/a", capacity).await.is(201);
    let held = r#"{"permits":[{"semaphore":"a"}]}"#;
    stays.put("/v1/requests/x", held).await.is(201);
    let mut first = waiter(&stops, "first").await;
    sleep(Duration::from_millis(700)).await;
    let second = waiter(&stays, "second").await;
    until("both wait", || async { stays.waiting("a").await == 2 }).await;

    stops.stop();
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    stops.stopped().await;
    sleep(Duration::from_secs(1)).await;
    let mut first = waiter(&stays, "first").await;
    sleep(Duration::from_millis(800)).await;
    stays.call("DELETE", "/v1/requests/x", "").await.is(200);
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(stays.waiting("a").await, 1, "the second waits");
    drop(second);
}
