//! Callers who take their time. The clock is paused, and jumps ahead when nobody has anything to
//! do.

use crate::access::made;
use crate::server::Server;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockhouse::Lockhouse;
use lockhouse_server::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep};

/// The answer to a caller that sends only `text`, and the time until it.
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
async fn a_body_that_does_not_arrive_is_408() {
    let head = "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{";
    let (answer, after) = answer(head).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"invalid_request\""), "{answer}");
    assert!(after <= Duration::from_secs(11), "{after:?}");
}

/// Calls whose bodies do not arrive take no turns from those that do.
#[tokio::test(start_paused = true)]
async fn slow_bodies_keep_no_other_call_of_their_token_waiting() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    let token = made(&lockhouse, "ci", &["define:*"]).await;
    let options = Options {
        calls: 2,
        ..Options::default()
    };
    let server = Server::with(lockhouse, options).await;
    let bearer = format!("Bearer {}", token.reveal());
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\
             content-type: application/json\r\ncontent-length: 14\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let call = Request::put("/v1/semaphores/b").header("authorization", bearer);
    server.send(call, r#"{"capacity":1}"#).await.is(201);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Anybody may try to log in.
#[tokio::test(start_paused = true)]
async fn a_login_that_does_not_arrive_is_408_within_seconds() {
    for method in ["POST", "DELETE"] {
        let head = format!(
            "{method} /v1/session HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: 14\r\n\r\n{{"
        );
        let (answer, after) = answer(&head).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(after <= Duration::from_secs(3), "{after:?}");
    }
}

#[tokio::test]
async fn a_login_that_is_too_long_is_413() {
    let server = Server::start().await;
    let body = format!(r#"{{"token":"{}"}}"#, "x".repeat(1_000));
    let refused = server.call("POST", "/v1/session", &body).await;
    refused.is_problem(413, "invalid_request");
}

#[tokio::test(start_paused = true)]
async fn half_a_request_head_and_idle_connections_time_out() {
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

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_is_disconnected() {
    let server = with_many_semaphores().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let call = format!("GET {MANY} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    // More than the system's buffers hold.
    stream.write_all(call.repeat(100).as_bytes()).await.unwrap();
    is_alone_after_a_minute(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_ends_its_connection() {
    let server = with_many_semaphores().await;
    let mut sender = without_a_window(&server).await;
    let call = Request::get(format!("{}{MANY}", server.url()));
    let call = call.body(Empty::<Bytes>::new()).unwrap();
    let _unread = sender.send_request(call).await.unwrap();
    is_alone_after_a_minute(&server).await;
}

/// Its text is in the program's memory anyway.
#[tokio::test]
async fn the_contract_takes_no_place_of_a_long_answer() {
    let server = with_many_semaphores().await;
    let mut sender = without_a_window(&server).await;
    let mut unread = Vec::new();
    // The first one is let in, so it is no stranger's connection.
    for path in ["/v1/requests"].into_iter().chain(["/openapi.json"; 130]) {
        let call = Request::get(format!("{}{path}", server.url()));
        let call = call.body(Empty::<Bytes>::new()).unwrap();
        unread.push(sender.send_request(call).await.unwrap());
    }
    assert!(unread.iter().all(|answer| answer.status() == 200));
    server.get(MANY).await.is(200);
}

/// A connection by HTTP/2 on which a long answer stays unread.
async fn without_a_window(server: &Server) -> http2::SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.initial_stream_window_size(1_024);
    let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

const MANY: &str = "/v1/semaphores?limit=1000";

async fn with_many_semaphores() -> Server {
    let server = Server::start().await;
    for n in 0..1_000 {
        let name = format!("{n:0>255}");
        server.lockhouse.define(name, 1).await.unwrap();
    }
    server
}

/// That the other connection ends when its caller has had a minute to read.
async fn is_alone_after_a_minute(server: &Server) {
    let begun = Instant::now();
    while server.connections().await > 1 {
        assert!(begun.elapsed() < Duration::from_secs(70));
        sleep(Duration::from_secs(1)).await;
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(50), "{took:?}");
}
