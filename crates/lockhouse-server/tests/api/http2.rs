//! HTTP/2 without TLS, as a proxy speaks it that keeps one connection for many callers.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::full::full;
use crate::server::{Server, until};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{SockRef, Socket};
use tokio::net::TcpStream;

type Sender = SendRequest<Full<Bytes>>;

/// A connection, and its socket.
async fn connect(server: &Server) -> (Sender, Socket) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let socket = SockRef::from(&stream).try_clone().unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    (sender, socket)
}

fn request(server: &Server, method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("{}{path}", server.url()))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

fn wait(server: &Server, id: &str) -> Request<Full<Bytes>> {
    let body = r#"{"permits":[{"semaphore":"a"}],"wait_ms":86400000}"#;
    request(server, "PUT", &format!("/v1/requests/{id}"), body)
}

/// P10.
#[tokio::test]
async fn a_waiter_whose_stream_is_closed_is_granted_nothing() {
    let server = full().await;
    let (mut sender, _socket) = connect(&server).await;
    let mut other = sender.clone();
    let (gone, stays) = (wait(&server, "gone"), wait(&server, "stays"));
    let gone = tokio::spawn(async move { sender.send_request(gone).await });
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    let asked = other.send_request(stays);
    let stays = tokio::spawn(asked);
    until("two wait", || async { server.waiting("a").await == 2 }).await;
    let since = Instant::now();
    gone.abort();
    until("one is gone", || async { server.waiting("a").await == 1 }).await;
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    server.call("DELETE", "/v1/requests/x", "").await.is(200);
    assert_eq!(stays.await.unwrap().unwrap().status(), 201);
    let path = "/v1/requests/gone";
    server.get(path).await.is_problem(404, "unknown_request");
}

/// P10. A caller of HTTP/2 that closes its sending side can send nothing more.
#[tokio::test]
async fn waiters_whose_connection_ends_are_granted_nothing() {
    let server = full().await;
    let (mut sender, socket) = connect(&server).await;
    let waiting = sender.send_request(wait(&server, "y"));
    let waiting = tokio::spawn(waiting);
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    socket.shutdown(Shutdown::Write).unwrap();
    until("nobody waits", || async { server.waiting("a").await == 0 }).await;
    assert!(waiting.await.unwrap().is_err());
    assert_eq!(server.connections().await, 1);
}

#[tokio::test]
async fn calls_are_answered_and_a_stop_ends_the_connection() {
    let mut server = full().await;
    let (mut sender, _socket) = connect(&server).await;
    let answer = sender.send_request(request(&server, "GET", "/v1/requests", ""));
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(
        body.starts_with(b"{\"requests\":[{\"external_id\":\"x\""),
        "{body:?}"
    );
    let since = Instant::now();
    server.stop();
    server.stopped().await;
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "{:?}",
        since.elapsed()
    );
}
