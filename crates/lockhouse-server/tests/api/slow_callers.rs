//! Callers who take their time. The clock is paused, and jumps ahead when nobody has anything to
//! do.

use crate::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant};

/// What is answered to one who sends `text` and no more, and after how long.
async fn answer(text: &str) -> (String, Duration) {
    let server = Server::start().await;
    let begun = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_408() {
    let head = "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{";
    let (answer, after) = answer(head).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"invalid_request\""), "{answer}");
    assert!(after <= Duration::from_secs(11), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn half_a_head_and_an_idle_connection_are_hung_up_on() {
    for text in ["GET /healthz HTTP/1.1\r\nhost:", ""] {
        let (_, after) = answer(text).await;
        assert!(after <= Duration::from_secs(61), "{text:?} {after:?}");
    }
    let (once, after) = answer("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(once.starts_with("HTTP/1.1 200 "), "{once}");
    assert!(after <= Duration::from_secs(61), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused() {
    let (answer, _) = answer(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(70_000))).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}
