//! Carries one connection as HTTP requests and their replies, one after the other.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::connection;
use super::link::{Failure, Shared};

/// How late a reply may be: longer than any caller waits.
const LATEST: Duration = Duration::from_secs(11);

/// Carries a connection until one side hangs up, or a failure ends it. Without a failure of HTTP, it carries bytes.
pub(super) async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    nth: usize,
    shared: &Shared,
) {
    // A reply to repeat during the next request.
    let mut again: Option<Vec<u8>> = None;
    loop {
        let of_http = |failure: Option<Failure>| {
            matches!(
                failure,
                Some(
                    Failure::LostReplies
                        | Failure::LateReplies
                        | Failure::RepeatedRequests
                        | Failure::RepeatedReplies
                )
            )
        };
        let mut state = shared.state.subscribe();
        if !of_http(state.borrow().failure) {
            // The connection is carried as bytes from now on, so it must end when a failure of HTTP begins.
            tokio::select! {
                () = connection::carry(client, server, nth, shared) => {}
                _ = state.wait_for(|state| of_http(state.failure)) => {}
            }
            return;
        }
        let Some(request) = message(&mut client).await else {
            return;
        };
        let failure = shared.state.borrow().failure;
        if let Some(again) = again.take()
            && failure == Some(Failure::RepeatedReplies)
            && client.write_all(&again).await.is_err()
        {
            return;
        }
        if failure == Some(Failure::RepeatedRequests) && !repeat(&request, shared).await {
            return;
        }
        if server.write_all(&request).await.is_err() {
            return;
        }
        let Some(mut reply) = message(&mut server).await else {
            return;
        };
        match failure {
            Some(Failure::LostReplies) if fastrand::bool() => return,
            Some(Failure::LateReplies) => {
                let late = fastrand::f64();
                sleep(LATEST.mul_f64(late * late * late)).await;
            }
            Some(Failure::RepeatedReplies) if fastrand::bool() => reply.extend_from_within(..),
            Some(Failure::RepeatedReplies) => again = Some(reply.clone()),
            _ => {}
        }
        if client.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Sends the request by another connection, and waits for its reply, so that its effects come before the caller's answer.
async fn repeat(request: &[u8], shared: &Shared) -> bool {
    let server = shared.server();
    let repeated = async {
        let mut other = TcpStream::connect(&server).await.ok()?;
        other.write_all(request).await.ok()?;
        message(&mut other).await
    };
    repeated.await.is_some()
}

/// The next whole request or reply. `None` if the connection ends.
async fn message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut buffer = vec![0; 1 << 14];
    loop {
        let length = from.read(&mut buffer).await.ok()?;
        if length == 0 {
            return None;
        }
        message.extend_from_slice(&buffer[..length]);
        if is_whole(&message) {
            return Some(message);
        }
    }
}

/// Whether the message is complete. Lockhouse's requests and replies state their length.
fn is_whole(message: &[u8]) -> bool {
    let end_of_head = message.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let Some(head) = end_of_head else {
        return false;
    };
    let text = String::from_utf8_lossy(&message[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let body = length
        .and_then(|length| length.trim().parse().ok())
        .unwrap_or(0);
    message.len() >= head + 4 + body
}
