//! A semaphore without room, and callers who wait for some.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::Server;

/// A server with a semaphore `a`, whose only permit `x` holds.
pub(crate) async fn full() -> Server {
    let server = Server::start().await;
    let capacity = r#"{"capacity":1}"#;
    server.put("/v1/semaphores/a", capacity).await.is(201);
    let ask = r#"{"permits":[{"semaphore":"a"}]}"#;
    server.put("/v1/requests/x", ask).await.is(201);
    server
}

/// A caller who waits for `a`, and is there for as long as the stream is.
pub(crate) async fn waiter(server: &Server, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = r#"{"permits":[{"semaphore":"a"}],"wait_ms":60000}"#;
    let line = format!("PUT /v1/requests/{id} HTTP/1.1");
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let length = body.len();
    let call = format!("{line}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(call.as_bytes()).await.unwrap();
    stream
}
