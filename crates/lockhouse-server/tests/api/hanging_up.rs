//! Callers that hang up while they wait, with bytes behind their call that hide the end of the
//! connection.

use std::time::{Duration, Instant};

use crate::full::{full, waiter};
use crate::server::{Server, until};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How soon the line is rid of a caller that is gone.
pub(crate) const SOON: Duration = Duration::from_secs(5);

const BEHIND: [&str; 4] = [
    "",
    "\r\n",
    "GET /v1/semaphores/a HT",
    "GET /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\n\r\n",
];

#[derive(Clone, Copy, Debug)]
enum End {
    Fin,
    Reset,
    /// It reads on.
    HalfClose,
}

/// P10.
#[tokio::test]
async fn a_waiter_that_hangs_up_behind_unread_bytes_is_granted_nothing() {
    for end in [End::Fin, End::Reset, End::HalfClose] {
        for behind in BEHIND {
            let server = full().await;
            let mut stream = waiter(&server, "y").await;
            until("one waits", || async { server.waiting("a").await == 1 }).await;
            stream.write_all(behind.as_bytes()).await.unwrap();
            // Both have been read or will be, whatever is asked here.
            server.get("/healthz").await.is(200);
            let _open = hang_up(stream, end).await;
            is_rid_of_its_waiters(&server, &format!("{end:?} behind {behind:?}")).await;
        }
    }
}

/// P10. The server cannot see data that is stuck on the caller's machine, but it can see that much
/// is unread.
#[tokio::test]
async fn a_waiter_that_sends_more_than_is_read_is_granted_nothing() {
    let server = full().await;
    let mut stream = waiter(&server, "y").await;
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    let flood = vec![b'\n'; 1024 * 1024];
    let flooding = tokio::spawn(async move { while stream.write_all(&flood).await.is_ok() {} });
    is_rid_of_its_waiters(&server, "a flood").await;
    flooding.await.unwrap();
}

/// P10: also the second call of two that were sent at once.
#[tokio::test]
async fn a_waiter_behind_another_call_of_its_connection_is_granted_nothing() {
    let server = full().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = r#"{"permits":[{"semaphore":"a"}],"wait_ms":86400000}"#;
    let calls = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nPUT /v1/requests/y HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}\r\n",
        body.len()
    );
    stream.write_all(calls.as_bytes()).await.unwrap();
    until("one waits", || async { server.waiting("a").await == 1 }).await;
    drop(stream);
    is_rid_of_its_waiters(&server, "the second call").await;
}

#[tokio::test]
async fn a_call_without_a_wait_is_answered_after_a_half_close() {
    let server = full().await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = r#"{"permits":[{"semaphore":"a"}]}"#;
        let call = format!(
            "PUT /v1/requests/y HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(call.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 423 "), "{answer:?}");
    }
}

async fn hang_up(mut stream: TcpStream, end: End) -> Option<TcpStream> {
    match end {
        End::Fin => None,
        End::Reset => {
            let at_once = Some(Duration::ZERO);
            SockRef::from(&stream).set_linger(at_once).unwrap();
            None
        }
        End::HalfClose => {
            stream.shutdown().await.unwrap();
            Some(stream)
        }
    }
}

async fn is_rid_of_its_waiters(server: &Server, how: &str) {
    let since = Instant::now();
    until("nobody waits", || async { server.waiting("a").await == 0 }).await;
    assert!(since.elapsed() < SOON, "{how}: {:?}", since.elapsed());
    server.call("DELETE", "/v1/requests/x", "").await.is(200);
    let shown = server.get("/v1/semaphores/a").await.json();
    assert_eq!(shown["in_use"], 0, "{how}");
}
