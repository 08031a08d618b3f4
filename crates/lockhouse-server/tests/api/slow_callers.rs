//! Callers who take their time. The clock is paused, and jumps ahead when nobody has anything to
//! do.

use crate::full::full;
use crate::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep};

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

/// The bytes are on their way until the caller reads, or has not for a minute.
#[tokio::test(start_paused = true)]
async fn one_who_does_not_read_is_hung_up_on() {
    let server = full().await;
    for n in 0..1_000 {
        let name = format!("{n:0>255}");
        server.lockhouse.define(name, 1).await.unwrap();
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let call = "GET /v1/semaphores?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(call.repeat(100).as_bytes()).await.unwrap();
    let begun = Instant::now();
    let counted = async || {
        let metrics = server.get("/metrics").await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("lockhouse_http_connections "));
        line.unwrap()
            .rsplit_once(' ')
            .unwrap()
            .1
            .parse::<u32>()
            .unwrap()
    };
    while counted().await > 1 {
        assert!(begun.elapsed() < Duration::from_secs(70));
        sleep(Duration::from_secs(1)).await;
    }
    assert!(
        begun.elapsed() > Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
}
